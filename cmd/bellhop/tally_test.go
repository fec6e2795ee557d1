package main

import (
	"net"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// manager receives what a process reports to systemd.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// newManager returns a manager, and the variable that names it.
func newManager(t *testing.T) (m manager, variable string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return manager{t, conn}, "NOTIFY_SOCKET=" + name
}

// await waits for a report that begins so.
func (m manager) await(want string) {
	m.t.Helper()
	m.awaitMatch("^" + regexp.QuoteMeta(want))
}

// awaitMatch waits for a report of a form.
func (m manager) awaitMatch(form string) {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(storetest.Deadline))
	pattern := regexp.MustCompile(form)
	var all []string
	for text := make([]byte, 1000); ; {
		n, err := m.conn.Read(text)
		if err != nil {
			m.t.Fatalf("%v; %q was not reported, but %q", err, form, all)
		}
		all = append(all, string(text[:n]))
		if pattern.Match(text[:n]) {
			return
		}
	}
}

func TestWorkReportsItsStatus(t *testing.T) {
	t.Parallel()
	m, variable := newManager(t)
	s := newShell(t, variable)
	p := s.start("work", "t", "--", "sh", "-c", `test "$MESSAGE_ID$NOTIFY_SOCKET" = right`) // it must not speak for this process
	s.call("publish", "t", "--id", "right", "--body", "x")
	m.await("STATUS=0 running, 1 handled, 0 failed")
	s.call("publish", "t", "--id", "wrong", "--attempts", "1", "--body", "x")
	m.await("STATUS=0 running, 1 handled, 1 failed")
	p.stop()
	m.await("STATUS=stopping: 0 running, 1 handled, 1 failed")
}

func TestListenReportsItsStatus(t *testing.T) {
	t.Parallel()
	m, variable := newManager(t)
	s := newShell(t, variable)
	s.start("serve").await(1, "msg=elected")
	for _, flags := range [][]string{{"--name", "shop", "--attempts", "1"}, nil} {
		p := s.start(append(append([]string{"listen", "t"}, flags...), "--", "sh", "-c", `test "$MESSAGE_ID" = right`)...)
		p.await(1, "msg=listening")
		s.call("broadcast", "t", "--id", "right", "--body", "x")
		m.await("STATUS=0 running, 1 handled, 0 failed")
		s.call("broadcast", "t", "--id", "wrong", "--body", "x")
		m.await("STATUS=0 running, 1 handled, 1 failed")
		p.stop()
	}
}

func TestStatusWhileRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	m, variable := newManager(t)
	s := newShell(t, variable, "BELLHOP_REDIS_URL=redis://127.0.0.1:1")
	p := s.start("work", "t")
	m.await("STATUS=0 running, 0 handled, 0 failed; waiting for Redis at redis://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; start Redis there")
	p.stop()
}
