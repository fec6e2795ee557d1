package daemon_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A manager receives a daemon's messages to systemd.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// manage sets the environment of a service.
func manage(t *testing.T) manager {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "600000000")
	return manager{t, conn}
}

// until returns the messages up to one with a prefix, without the clock of a reload.
func (m manager) until(last string) (all []string) {
	m.t.Helper()
	m.conn.SetReadDeadline(time.Now().Add(storetest.Deadline))
	for text := make([]byte, 1000); ; {
		n, err := m.conn.Read(text)
		if err != nil {
			m.t.Fatalf("%v; there came %q", err, all)
		}
		one, _, _ := strings.Cut(string(text[:n]), "\n")
		if one != "WATCHDOG=1" { // it comes from a goroutine of its own
			all = append(all, one)
		}
		if strings.HasPrefix(one, last) {
			return all
		}
	}
}

func TestRunTellsSystemd(t *testing.T) {
	server := storetest.Server(t)
	server.Kill()
	c := config(t, server.URL())
	c.CarrierLease = carrier.MaxLease // its epoch is the first
	manager := manage(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log storetest.Log
	logger := daemon.NewLogger(c, &log)
	reload := make(chan os.Signal)
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, c, daemon.Options{Logger: logger, Reload: reload, Systemd: sd.New(logger, os.Environ())})
	}()
	wants := func(last string, want ...string) {
		t.Helper()
		storetest.Same(t, "reported to systemd", append(want, last), manager.until(last))
	}
	wants("READY=1", "STATUS=connecting to Redis at "+server.URL())
	if all := manager.until("STATUS=waiting for Redis at " + server.URL() + ": dial tcp "); len(all) > 2 || !strings.HasSuffix(all[len(all)-1], "connection refused; start Redis there (systemctl start redis-server), or name another in BELLHOP_REDIS_URL") {
		t.Errorf("reported to systemd %q", all)
	}
	storetest.Restart(t, server)
	carries := "STATUS=carrier, epoch 1"
	if storetest.Shards() > 1 {
		carries = "STATUS=carrying 8 of 8 shards"
	}
	if all := manager.until(carries); len(all) > 2 { // in between it may be a standby
		t.Errorf("reported to systemd %q", all)
	}
	reload <- syscall.SIGHUP
	wants("READY=1", "RELOADING=1")
	stop()
	wants("STATUS=stopping", "STOPPING=1")
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if !strings.Contains(log.String(), "msg=reloaded") {
		t.Errorf("the reload is not logged:\n%s", &log)
	}
}
