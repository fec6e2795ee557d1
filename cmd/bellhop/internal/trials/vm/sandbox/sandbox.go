//go:build linux

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bootTimeout    = time.Minute
	commandTimeout = 5 * time.Minute // some install packages
)

// namespaces are the namespaces of a sandbox. The process itself makes that of cgroups
// later, when it is in its cgroup.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Options are the options of Boot. The zero value is the default.
type Options struct {
	Name    string   // name of the host; empty: "sandbox"
	Network *Sandbox // shares its network; nil: a network of its own, with only a loopback
}

// A Sandbox is a running systemd.
type Sandbox struct {
	t       testing.TB
	pid     int
	console *bytes.Buffer // may be read after done
	done    chan struct{} // closed when systemd has ended
	cgroup  string
}

// Boot boots a systemd, and ends it when the test ends. If the machine forbids
// namespaces, Boot skips the test; any other error fails it.
func Boot(t testing.TB, o Options) *Sandbox {
	t.Helper()
	if reason := Forbidden(); reason != "" {
		t.Skip("SKIPPED: this machine forbids what a sandbox needs: " + reason)
	}
	b, err := boot(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// For returns the same sandbox for another test: a subtest of the one that booted it.
func (b *Sandbox) For(t testing.TB) *Sandbox {
	other := *b
	other.t = t
	return &other
}

// Forbidden returns why the machine forbids sandboxes; empty if it allows them.
func Forbidden() string {
	if os.Geteuid() != 0 {
		return "the tests do not run as root"
	}
	try := exec.Command("/bin/true")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces | syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP}
	if err := try.Run(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("namespaces are refused: %v", err)
	}
	return ""
}

func boot(t testing.TB, o Options) (*Sandbox, error) {
	group, err := newCgroup()
	if err != nil {
		return nil, err
	}
	b := &Sandbox{t: t, cgroup: group, console: new(bytes.Buffer), done: make(chan struct{})}
	t.Cleanup(b.end)
	cmd, err := b.command(o)
	if err != nil {
		close(b.done)
		return nil, err
	}
	defer cmd.Stdin.(io.Closer).Close()
	if err := cmd.Start(); err != nil {
		close(b.done)
		return nil, fmt.Errorf("start a sandbox: %w", err)
	}
	b.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // always an error, since end kills it
		close(b.done)
	}()
	return b, b.await()
}

// command returns the command that runs this test binary as systemd. Its standard input
// is the network to join, if any.
func (b *Sandbox) command(o Options) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root := b.t.TempDir() // a mount point, which stays empty here
	network := os.DevNull
	flags := uintptr(namespaces | syscall.CLONE_NEWNET)
	if o.Network != nil {
		network = fmt.Sprintf("/proc/%d/ns/net", o.Network.pid)
		flags &^= syscall.CLONE_NEWNET
	}
	in, err := os.Open(network)
	if err != nil {
		return nil, fmt.Errorf("open a network: %w", err)
	}
	group, err := os.Open(b.cgroup)
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	b.t.Cleanup(func() { group.Close() })
	cmd := exec.Command(self)
	cmd.Env = []string{bootRoot + "=" + root, bootName + "=" + cmp.Or(o.Name, "sandbox"), "GORACE=atexit_sleep_ms=0"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, b.console, b.console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: flags, Pdeathsig: syscall.SIGKILL, Setsid: true,
		UseCgroupFD: true, CgroupFD: int(group.Fd()),
	}
	return cmd, nil
}

// await waits until systemd has started all units.
func (b *Sandbox) await() error {
	for end := time.Now().Add(bootTimeout); ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-b.done:
			return fmt.Errorf("systemd ended at once:\n%s", b.console)
		default:
		}
		if conn, err := net.Dial("unix", fmt.Sprintf("/proc/%d/root/run/systemd/private", b.pid)); err == nil { // it is there before it listens
			conn.Close()
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("systemd does not boot within %v", bootTimeout)
		}
	}
	if out, err := b.Try("systemctl", "is-system-running", "--wait"); err != nil {
		failed, _ := b.Try("systemctl", "--failed", "--no-pager", "--plain")
		return fmt.Errorf("systemd is %s after its boot:\n%s", strings.TrimSpace(out), failed)
	}
	return nil
}

// end kills all processes inside, and removes the cgroup.
func (b *Sandbox) end() {
	if b.pid != 0 {
		_ = syscall.Kill(b.pid, syscall.SIGKILL) // with PID 1 the kernel kills all others
	}
	<-b.done
	if err := removeCgroup(b.cgroup); err != nil {
		b.t.Errorf("remove what a sandbox leaves: %v", err)
	}
}

// Command returns a command that runs inside, as root. When ctx ends, it is no longer
// waited for; what it started ends with the sandbox at the latest.
func (b *Sandbox) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(b.pid), "-m", "-p", "-n", "-u", "-i", "-C", "-r", "-w", "--", name}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER="}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

// Try runs a command inside and returns all that it printed.
func (b *Sandbox) Try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	out, err := b.Command(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// Run runs a command inside and returns all that it printed. It fails the test if the
// command fails.
func (b *Sandbox) Run(name string, args ...string) string {
	b.t.Helper()
	out, err := b.Try(name, args...)
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Dial connects from outside to an address in the sandbox's network.
func (b *Sandbox) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	runtime.LockOSThread() // a socket is in the network of the thread that makes it
	defer runtime.UnlockOSThread()
	ours, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open a network: %w", err)
	}
	defer ours.Close()
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", b.pid))
	if err != nil {
		return nil, fmt.Errorf("open a network: %w", err)
	}
	defer theirs.Close()
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("join a network: %w", err)
	}
	defer func() {
		// To end the thread instead would kill the processes that it started.
		if err := unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("go back to the network of the test: %v", err))
		}
	}()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Path returns the path outside of a file inside.
func (b *Sandbox) Path(inside string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", b.pid), inside)
}

// Write writes a file inside, and makes the folders above it.
func (b *Sandbox) Write(path, text string, mode os.FileMode) {
	b.t.Helper()
	err := os.MkdirAll(filepath.Dir(b.Path(path)), 0o755)
	if err == nil {
		err = os.WriteFile(b.Path(path), []byte(text), mode)
	}
	if err == nil {
		err = os.Chmod(b.Path(path), mode)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// cgroupPrefix begins the names of the sandboxes' cgroups. The id of the process that made
// the cgroup and a number follow.
const cgroupPrefix = "bellhop-sandbox-"

var boots atomic.Int64

// newCgroup makes a cgroup, and removes those of killed processes.
func newCgroup() (string, error) {
	top, err := exec.Command("findmnt", "-n", "-t", "cgroup2", "-o", "TARGET", "--first-only").Output()
	if err != nil {
		return "", fmt.Errorf("find the cgroups of version 2: %w", err)
	}
	parent := strings.TrimSpace(string(top))
	old, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range old {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix), "-")
		if _, err := os.Stat("/proc/" + maker); errors.Is(err, os.ErrNotExist) {
			_ = removeCgroup(dir) // the next one tries again
		}
	}
	dir := filepath.Join(parent, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), boots.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	return dir, nil
}

// removeCgroup removes a cgroup with all below it. It repeats that, since killed processes
// remain for a moment.
func removeCgroup(dir string) (err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil // one may vanish meanwhile
		})
		for i := len(all) - 1; i >= 0; i-- { // those below first
			err = os.Remove(all[i])
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return err
}
