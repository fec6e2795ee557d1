package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// An unread is an output that nobody reads.
type unread struct {
	t              *testing.T
	reader, writer *os.File
}

func newUnread(t *testing.T) unread {
	t.Helper()
	reader, writer, err := os.Pipe()
	storetest.Must(t, err)
	t.Cleanup(func() { // which ends the write that is under way
		reader.Close()
		writer.Close()
	})
	return unread{t, reader, writer}
}

// pipeSize is how much a pipe of Linux holds.
const pipeSize = 64 << 10

// fill has later writes wait.
func (u unread) fill() {
	u.t.Helper()
	storetest.Must(u.t, storetest.ErrOf(u.writer.Write(make([]byte, pipeSize))))
}

// isFull reports whether a write waits.
func (u unread) isFull() bool {
	u.t.Helper()
	conn, err := u.reader.SyscallConn()
	storetest.Must(u.t, err)
	var n int
	var bad error
	err = conn.Control(func(fd uintptr) { n, bad = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	storetest.Must(u.t, errors.Join(err, bad))
	return n == pipeSize
}

const waitsForReader = "of the command: nobody reads it, and the command waits until somebody does"

// A worker and a listener stop though nobody reads their output: a command that waits gets SIGTERM after the grace, and
// its message is released.
func TestStopUnread(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call, script string
		toErr        bool
	}{
		"output":                           {"work t", "cat /dev/zero", false},
		"errors":                           {"work t", "cat /dev/zero >&2", true},
		"errors, and it ignores a SIGTERM": {"work t", "trap '' TERM; head -c 1000000 /dev/zero >&2; exec sleep 60", true}, // is killed after 5 s
		"kept":                             {"work t --keep 1h", "cat /dev/zero", false},
		"named listener":                   {"listen t --name n", "cat /dev/zero", false},
		"listener":                         {"listen t", "cat /dev/zero >&2", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, variable := newManager(t)
			s := newShell(t, variable, "BELLHOP_SHUTDOWN_TIMEOUT=50ms")
			u, p := newUnread(t), newProcess(t)
			u.fill()
			if test.toErr {
				s.startTo(p, &p.printed, u.writer, append(strings.Fields(test.call), "--", "sh", "-c", test.script)...)
			} else {
				s.startTo(p, u.writer, &p.printed, append(strings.Fields(test.call), "--", "sh", "-c", test.script)...)
			}
			listens := strings.HasPrefix(test.call, "listen")
			if listens {
				m.await("READY=1")
				s.serve()
				s.broadcast("t 1")
			} else {
				s.publish("t", 1)
			}
			m.awaitMatch(`^STATUS=1 running, 0 handled, 0 failed; cannot pass on the standard (output|error) ` + waitsForReader)
			p.stop()
			if !listens {
				s.isUntouched("t", "1")
			}
		})
	}
}

// Without a command the message, or the broadcast, that is being printed is released.
func TestStopUnreadWithoutCommand(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"work t", "work t --json", "listen t --from beginning", "listen t --name n --from beginning"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "BELLHOP_SHUTDOWN_TIMEOUT=50ms")
			s.serve()
			long := strings.Repeat("x", pipeSize)
			s.call("publish", "t", "--id", "1", "--body", long)
			s.call("broadcast", "t", "--body", long)
			u, p := newUnread(t), newProcess(t)
			s.startTo(p, u.writer, &p.printed, strings.Fields(call)...)
			storetest.Eventually(t, "it waits for a reader", u.isFull)
			p.stop()
			s.isUntouched("t", "1")
		})
	}
}

// A try_timeout ends a command whose output nobody reads, and frees the hand.
func TestTryTimeoutUnread(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve() // which brings a message back whose time was over before its command began
	u, p := newUnread(t), newProcess(t)
	u.fill()
	s.startTo(p, u.writer, &p.printed, "work", "t", "--", "sh", "-c", `test $MESSAGE_ID = 2 || exec cat /dev/zero`)
	s.call("publish", "t", "--id", "1", "--try-timeout", "1s", "--body", "x")
	p.await(1, "cannot pass on the standard output of the command")
	s.call("publish", "t", "--id", "2", "--body", "x")
	storetest.Eventually(t, "the other is handled", func() bool { return s.counts("t").Acked == 1 })
	p.stop()
}

// The exit code of a command decides, and what it printed is kept, though nobody reads it.
func TestKeepUnread(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 2)
	u, p := newUnread(t), newProcess(t)
	u.fill()
	size := strconv.Itoa(60 << 10) // more than one write
	s.startTo(p, u.writer, &p.printed, "work", "t", "--keep", "1h", "--count", "2", "--", "sh", "-c", `head -c `+size+` /dev/zero; test $MESSAGE_ID = 1 || exit 65`)
	p.ends(exitDone)
	contains(t, p.said(), "bellhop: handled 1, failed 1\n")
	var message api.Message
	s.json(&message, "inspect", "t", "1", "--json")
	if message.State != notify.Done || len(*message.Result.Result) != 60<<10 {
		t.Errorf("got %+v", message)
	}
}

// A worker waits for a reader that pauses: nothing of the output is lost.
func TestReaderPauses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	u, p := newUnread(t), newProcess(t)
	u.fill()
	s.startTo(p, u.writer, &p.printed, "work", "t", "--count", "1", "--", "sh", "-c", "head -c 1000000 /dev/zero; echo; echo the end")
	p.await(1, "cannot pass on the standard output")
	var got bytes.Buffer
	text := make([]byte, pipeSize)
	for want := pipeSize + 1_000_000 + len("\nthe end\n"); got.Len() < want; {
		n, err := u.reader.Read(text)
		if err != nil {
			t.Fatalf("%v after %d bytes", err, got.Len())
		}
		got.Write(text[:n])
	}
	p.ends(exitDone)
	if !strings.HasSuffix(got.String(), "\x00\nthe end\n") {
		t.Errorf("it ends with %q", got.Bytes()[got.Len()-20:])
	}
	contains(t, p.said(), `level=INFO msg="the standard output of the command is passed on again"`)
}
