// Package machine gives a redis-server a machine of its own, for tests that break it: its
// clock can be set while it runs, its disk can be filled, and its power can be cut, so that
// only synchronised data is left.
//
// It needs Linux, a C compiler, and root or unprivileged user namespaces: the disk is a
// file system in memory in a mount namespace of its own, which ends with this process.
package machine

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
)

//go:embed testdata/machine.c
var source []byte

const mountTimeout = 20 * time.Second

// Build compiles the library that machines need into a folder, and returns its path.
func Build(ctx context.Context, dir string) (library string, err error) {
	file, library := filepath.Join(dir, "machine.c"), filepath.Join(dir, "machine.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", fmt.Errorf("build the library of machines: %w", err)
	}
	out, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, file).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the library of machines: cc: %w: %s; on Debian: apt-get install gcc libc6-dev", err, out)
	}
	return library, nil
}

// A Machine is the machine of one redis-server at a time.
type Machine struct {
	library string
	holder  *child.Process // holds the mount namespace
	data    string         // folder of the disk, as Redis sees it
	clock   *os.File       // holds how many µs the clock is ahead
	syncs   string         // path of the record of synchronised files
}

// New returns a machine with a disk of the given size in bytes. It keeps its files in dir, an
// absolute path. library is the result of Build.
func New(ctx context.Context, dir, library string, disk int64) (*Machine, error) {
	m := &Machine{library: library, data: filepath.Join(dir, "disk"), syncs: filepath.Join(dir, "syncs")}
	if err := os.MkdirAll(m.data, 0o755); err != nil {
		return nil, fmt.Errorf("start a machine: %w", err)
	}
	var err error
	if m.clock, err = os.Create(filepath.Join(dir, "clock")); err != nil {
		return nil, fmt.Errorf("start a machine: %w", err)
	}
	if err := errors.Join(m.SetClock(0), m.mount(ctx, disk)); err != nil {
		m.Close()
		return nil, fmt.Errorf("start a machine: %w", err)
	}
	return m, nil
}

// mount mounts the disk in a mount namespace, held by a process.
func (m *Machine) mount(ctx context.Context, disk int64) (err error) {
	const script = `mount -t tmpfs -o "size=$1" tmpfs "$2" && exec setpriv --pdeathsig TERM sleep infinity`
	args := []string{"--mount"}
	if !root() {
		args = append(args, "--user", "--map-root-user")
	}
	m.holder, err = child.Start(child.Program{
		Path: "unshare", Name: "mount namespace (needs root or unprivileged user namespaces)", Output: os.Stderr,
		Args: append(args, "sh", "-c", script, "sh", strconv.FormatInt(disk, 10), m.data),
	})
	if err != nil {
		return err
	}
	return m.holder.Await(ctx, mountTimeout, func(context.Context) error {
		var fs unix.Statfs_t
		if err := unix.Statfs(m.Disk(), &fs); err != nil {
			return err
		}
		if fs.Type != unix.TMPFS_MAGIC || fs.Blocks*uint64(fs.Bsize) > uint64(disk)+uint64(fs.Bsize) {
			return errors.New("the disk is not mounted yet")
		}
		return nil
	})
}

// Close ends the machine. Stop its redis-server first.
func (m *Machine) Close() {
	if m.holder != nil {
		m.holder.Kill()
	}
	m.clock.Close()
}

// Disk returns the folder of the disk as this process sees it.
func (m *Machine) Disk() string {
	return fmt.Sprintf("/proc/%d/root%s", m.holder.Pid(), m.data)
}

// Options returns options with which a redis-server runs on the machine. setpriv repeats that
// the server ends with its parent, since entering a user namespace resets that.
func (m *Machine) Options(o redisserver.Options) redisserver.Options {
	o.Dir = m.data
	o.Under = []string{"nsenter", "--target", strconv.Itoa(m.holder.Pid()), "--mount"}
	if !root() {
		o.Under = append(o.Under, "--user", "--preserve-credentials")
	}
	o.Under = append(o.Under, "setpriv", "--pdeathsig", "TERM",
		"env", "LD_PRELOAD="+m.library, "MACHINE_CLOCK="+m.clock.Name(), "MACHINE_SYNCS="+m.syncs)
	return o
}

func root() bool { return os.Geteuid() == 0 }

// SetClock sets how far the clock of the redis-server is ahead; negative: behind. Its
// monotonic clock does not change.
func (m *Machine) SetClock(ahead time.Duration) error {
	if _, err := m.clock.WriteAt(clockFile(ahead), 0); err != nil {
		return fmt.Errorf("set the clock of a machine: %w", err)
	}
	return nil
}

// clockFile returns what the file of a clock holds.
func clockFile(ahead time.Duration) []byte {
	return binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds()))
}

// Clock returns a command under which a server has a clock that is ahead, or behind if that is
// negative. It keeps its files in dir, and needs neither root nor namespaces. SetClock sets it.
func Clock(ctx context.Context, dir string, ahead time.Duration) (under []string, err error) {
	library, err := Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	return []string{"env", "LD_PRELOAD=" + library, "MACHINE_CLOCK=" + filepath.Join(dir, "clock")}, SetClock(dir, ahead)
}

// SetClock sets the clock of servers under the command that Clock returned for a folder.
func SetClock(dir string, ahead time.Duration) error {
	file, err := os.OpenFile(filepath.Join(dir, "clock"), os.O_WRONLY|os.O_CREATE, 0o644) // a server of another user reads it
	if err == nil {
		_, err = file.WriteAt(clockFile(ahead), 0)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("set a clock: %w", err)
	}
	return nil
}
