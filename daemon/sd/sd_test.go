package sd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// showListeners in the environment makes the test binary print the sockets it was passed.
const showListeners = "SHOW_LISTENERS"

func TestMain(m *testing.M) {
	if os.Getenv(showListeners) != "" {
		printListeners()
		return
	}
	goleak.VerifyTestMain(m)
}

// printListeners prints the addresses of the listeners, and what is left of their variables.
func printListeners() {
	if os.Getenv("LISTEN_PID") == "me" {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) // the parent could not know it
	}
	all, err := sd.Listeners()
	for _, l := range all {
		fmt.Println(l.Addr())
	}
	fmt.Println("error:", err)
	fmt.Println("left:", os.Getenv("LISTEN_PID")+os.Getenv("LISTEN_FDS")+os.Getenv("LISTEN_FDNAMES"))
}

// manager is a socket like that of systemd.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// manage opens the socket and sets the environment as systemd does.
func manage(t *testing.T, name string, vars ...string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	for _, variable := range vars {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return &manager{t, conn}
}

// next returns the next message.
func (m *manager) next() string {
	m.t.Helper()
	m.conn.SetReadDeadline(time.Now().Add(storetest.Deadline))
	text := make([]byte, 1000)
	n, err := m.conn.Read(text)
	storetest.Must(m.t, err)
	return string(text[:n])
}

// quiet fails the test if there is one more message: one of its own is the next.
func (m *manager) quiet() {
	m.t.Helper()
	conn, err := net.DialUnix("unixgram", nil, m.conn.LocalAddr().(*net.UnixAddr))
	storetest.Must(m.t, err)
	defer conn.Close()
	storetest.Must(m.t, storetest.ErrOf(conn.Write([]byte("the end"))))
	if got := m.next(); got != "the end" {
		m.t.Errorf("got %q", got)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMessages(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@bellhop-test-" + strconv.Itoa(os.Getpid())} {
		m := manage(t, name)
		n := sd.New(discard(), os.Environ())
		n.Status("starting")
		n.Ready()
		n.Status("starting")
		n.Status("carrier")
		n.Reloading()
		n.Ready()
		n.Stopping(1500 * time.Millisecond)
		n.Watchdog(t.Context(), func() error { return nil }) // returns at once: none is set
		for _, want := range []string{"STATUS=starting", "READY=1", "STATUS=carrier", `RELOADING=1\nMONOTONIC_USEC=\d+\n`, "READY=1", `STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000`} {
			if got := m.next(); !regexp.MustCompile("^" + want + "$").MatchString(got) {
				t.Errorf("on %s: got %q, want %s", name, got, want)
			}
		}
		m.quiet()
	}
}

func TestNothingIsInherited(t *testing.T) {
	env := []string{"NOTIFY_SOCKET=/run/notify", "A=b", "WATCHDOG_USEC=1000000", "WATCHDOG_PID=1"}
	if got := sd.ForChildren(env); !slices.Equal(got, []string{"A=b"}) {
		t.Errorf("children get %q", got)
	}
}

func TestOutsideOfSystemd(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
		t.Setenv(name, "")
	}
	for _, n := range []*sd.Notifier{nil, sd.New(discard(), os.Environ())} {
		n.Ready()
		n.Status("starting")
		n.Reloading()
		n.Stopping(1500 * time.Millisecond)
		n.Watchdog(t.Context(), func() error { return nil })
	}
}

func TestWatchdog(t *testing.T) {
	m := manage(t, filepath.Join(t.TempDir(), "notify"), "WATCHDOG_USEC=30000000", "WATCHDOG_PID="+strconv.Itoa(os.Getpid()))
	var log bytes.Buffer
	n := sd.New(slog.New(slog.NewTextHandler(&log, nil)), os.Environ())
	checks := 0
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 65*time.Second)
		defer stop()
		n.Watchdog(ctx, func() error {
			if checks++; checks == 4 || checks == 5 {
				return errors.New("the loop stands still")
			}
			return nil
		})
	})
	if checks != 7 {
		t.Errorf("%d checks were made in 65 s, want one every 10 s", checks)
	}
	for range 5 {
		if got := m.next(); got != "WATCHDOG=1" {
			t.Errorf("got %q", got)
		}
	}
	m.quiet()
	if logged := strings.Count(log.String(), "not alive; "); logged != 1 {
		t.Errorf("the missing sign of life was logged %d times, want once:\n%s", logged, &log)
	}
}

func TestWatchdogOfAnother(t *testing.T) {
	m := manage(t, filepath.Join(t.TempDir(), "notify"), "WATCHDOG_USEC=30000", "WATCHDOG_PID=1")
	sd.New(discard(), os.Environ()).Watchdog(t.Context(), func() error { return nil })
	m.quiet()
}

func TestSystemdIsAway(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	m := manage(t, name)
	var log bytes.Buffer
	n := sd.New(slog.New(slog.NewTextHandler(&log, nil)), os.Environ())
	m.conn.Close()
	os.Remove(name)
	n.Ready()
	n.Status("carrier")
	m = manage(t, name)
	n.Status("carrier")
	if got := m.next(); got != "STATUS=carrier" {
		t.Errorf("got %q, want the status that could not be sent", got)
	}
	if logged := strings.Count(log.String(), "cannot notify systemd"); logged != 1 {
		t.Errorf("it was logged %d times, want once:\n%s", logged, &log)
	}
}

// activate runs the test binary as systemd starts a service with sockets.
func activate(t *testing.T, pid string, files ...*os.File) string {
	t.Helper()
	self, err := os.Executable()
	storetest.Must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), showListeners+"=1", "GORACE=atexit_sleep_ms=0", "LISTEN_PID="+pid, "LISTEN_FDNAMES=http:other", fmt.Sprintf("LISTEN_FDS=%d", len(files)))
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestListeners(t *testing.T) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	storetest.Must(t, err)
	defer tcp.Close()
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
	storetest.Must(t, err)
	defer unix.Close()
	first, errTCP := tcp.File()
	second, errUnix := unix.File()
	null, errNull := os.Open(os.DevNull)
	storetest.Must(t, errors.Join(errTCP, errUnix, errNull))
	defer first.Close()
	defer second.Close()
	defer null.Close()

	both := fmt.Sprintf("%s\n%s\nerror: <nil>\nleft: \n", tcp.Addr(), unix.Addr())
	storetest.Same(t, "two sockets", both, activate(t, "me", first, second))
	storetest.Same(t, "a socket for another process", "error: <nil>\nleft: \n", activate(t, "1", first))
	got := activate(t, "me", first, null)
	if !strings.HasPrefix(got, "error: listen on the socket other that systemd opened: ") || !strings.HasSuffix(got, "\nleft: \n") {
		t.Errorf("something that is no socket: %s", got)
	}
}
