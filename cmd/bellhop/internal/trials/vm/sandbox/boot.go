//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// The environment variables of a test binary that becomes systemd.
const (
	bootRoot = "BOOT_SANDBOX_AT"   // an empty folder
	bootName = "BOOT_SANDBOX_NAME" // name of the host
)

const systemd = "/lib/systemd/systemd"

// masked are units of the machine that cannot run in a sandbox.
var masked = []string{
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount", "dev-hugepages.mount", "dev-mqueue.mount",
	"systemd-modules-load.service", "systemd-update-utmp.service", "systemd-udevd.service", "systemd-udev-trigger.service",
}

// target is the boot target, with no more than services need.
const target = "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n"

// Main turns this process into systemd if Boot started it for that; else it returns at
// once. Call it first in TestMain.
func Main() {
	root := os.Getenv(bootRoot)
	if root == "" {
		return
	}
	runtime.LockOSThread() // namespaces belong to a thread
	err := prepare(root, os.Getenv(bootName))
	if err == nil {
		err = unix.Exec(systemd, []string{systemd, "--unit=sandbox.target", "--show-status=false"},
			[]string{"container=sandbox", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
	}
	fmt.Fprintln(os.Stderr, "boot a sandbox:", err)
	os.Exit(1)
}

// step is one step of prepare.
type step struct {
	name string
	do   func() error
}

// prepare makes this process the first one of a machine of its own. It mounts a root at a
// folder and enters it. The first step that fails ends it.
func prepare(at, name string) error {
	root := filepath.Join(at, "root")
	in := func(path string) string { return filepath.Join(root, path) }
	for _, s := range []step{
		{"join the network", joinNetwork},
		{"see its own cgroup as the root of all", func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }},
		{"keep mounts to itself", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root", func() error { return mountRoot(at, root) }},
		{"mount the kernel's file systems", func() error { return mountKernel(in) }},
		{"make devices", func() error { return makeDevices(in) }},
		{"mount memory", func() error { return mountMemory(in) }},
		{"name the host", func() error { return unix.Sethostname([]byte(name)) }},
		{"write what differs from this machine", func() error { return writeFiles(in, name) }},
		{"enter the root", func() error { return enter(root) }},
	} {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// joinNetwork joins the network namespace at standard input, if any, or else raises loopback in its own.
func joinNetwork() error {
	if err := unix.Setns(unix.Stdin, unix.CLONE_NEWNET); err == nil {
		return nil
	}
	return raiseLoopback()
}

// raiseLoopback does what "ip link set lo up" does.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

// mountRoot puts a layer of memory over this machine's root: files can be read, and writes stay in memory.
func mountRoot(at, root string) error {
	if err := unix.Mount("sandbox", at, "tmpfs", 0, "mode=755,size=2g"); err != nil {
		return err
	}
	upper, work := filepath.Join(at, "upper"), filepath.Join(at, "work")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work)
}

// mountKernel mounts the kernel's file systems. The settings under /proc/sys are the
// host's, so they are read-only: systemd would change them.
func mountKernel(in func(string) string) error {
	settings := in("/proc/sys")
	for _, m := range []struct {
		source, at, kind string
		flags            uintptr
	}{
		{"proc", in("/proc"), "proc", 0},
		{settings, settings, "", unix.MS_BIND},
		{"", settings, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
		{"sysfs", in("/sys"), "sysfs", unix.MS_RDONLY},
		{"cgroup2", in("/sys/fs/cgroup"), "cgroup2", 0},
	} {
		if err := unix.Mount(m.source, m.at, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("%s: %w", m.at, err)
		}
	}
	return nil
}

// makeDevices makes the few devices that programs need.
func makeDevices(in func(string) string) error {
	if err := unix.Mount("dev", in("/dev"), "tmpfs", 0, "mode=755,size=16m"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := filepath.Join("/dev", name)
		if err := os.WriteFile(in(path), nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(path, in(path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, in("/dev/"+name)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := os.Mkdir(in("/dev/"+dir), 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("devpts", in("/dev/pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
}

// mountMemory mounts the folders that are empty after a boot.
func mountMemory(in func(string) string) error {
	for path, mode := range map[string]string{"/dev/shm": "1777", "/run": "755", "/tmp": "1777"} {
		if err := unix.Mount("tmpfs", in(path), "tmpfs", 0, "mode="+mode); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// writeFiles writes the name of the host, an empty list of mounts, an empty
// machine-id, which systemd fills, and the units.
func writeFiles(in func(string) string, name string) error {
	units := in("/run/systemd/system")
	if err := os.MkdirAll(units, 0o755); err != nil {
		return err
	}
	for path, text := range map[string]string{
		in("/etc/hostname"): name + "\n", in("/etc/machine-id"): "", in("/etc/fstab"): "",
		filepath.Join(units, "sandbox.target"): target,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, unit := range masked {
		if err := os.Symlink("/dev/null", filepath.Join(units, unit)); err != nil {
			return err
		}
	}
	return nil
}

// enter makes a folder the root, and unmounts the old root.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now below the new one
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// Without this LoadCredential= silently gives an empty folder.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}
