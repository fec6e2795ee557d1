// Package sd reports the state of a daemon to systemd, and receives the sockets that
// systemd passes on.
//
//	n := sd.New(log, os.Environ())
//	...
//	n.Ready()
//	defer n.Stopping(timeout)
//
// If systemd did not start the process, all of it does nothing. sd_notify(3) describes
// the messages, sd_listen_fds(3) the sockets.
package sd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/notify/outage"
)

// sendTimeout is how long sending a message may take. systemd reads messages one by
// one, and the daemon must not wait for it.
const sendTimeout = time.Second

// A Notifier reports the state of this process to systemd. A nil Notifier, and one
// outside of systemd, reports nothing. It is safe for concurrent use. Of several
// messages in a row that cannot be sent, the first is logged.
type Notifier struct {
	log      *slog.Logger
	addr     *net.UnixAddr // nil: outside of systemd
	watchdog time.Duration // systemd expects a sign of life at this interval; zero: none

	outage *outage.Notice // of messages that could not be sent

	mu     sync.Mutex
	status string // the last one sent
}

// The variables of the socket, and of the watchdog.
const (
	socket       = "NOTIFY_SOCKET"
	watchdogUsec = "WATCHDOG_USEC"
	watchdogPID  = "WATCHDOG_PID"
)

// ForChildren returns an environment without the variables of socket and watchdog: child
// processes must not speak for this one.
func ForChildren(env []string) []string {
	return environ.Without(env, socket, watchdogUsec, watchdogPID)
}

// New returns a notifier for the socket in an environment of this process.
func New(log *slog.Logger, env []string) *Notifier {
	n := &Notifier{log: log, outage: outage.New(log, slog.LevelWarn, "cannot notify systemd", "notifying systemd again")}
	if name := environ.Get(env, socket); name != "" {
		n.addr = &net.UnixAddr{Name: name, Net: "unixgram"}
	}
	var err error
	if n.watchdog, err = interval(env); err != nil {
		log.Warn("cannot read the interval of systemd's watchdog; sending no signs of life", "error", err)
	}
	return n
}

// interval returns the interval of the watchdog, as sd_watchdog_enabled(3) defines it: zero if there is none for this process.
func interval(env []string) (time.Duration, error) {
	usec, pid := environ.Get(env, watchdogUsec), environ.Get(env, watchdogPID)
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	n, err := strconv.Atoi(usec)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%s %q: it is no number of microseconds", watchdogUsec, usec)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// Ready reports that the daemon serves, after a start or a reload.
func (n *Notifier) Ready() { n.send(daemon.SdNotifyReady) }

// Reloading reports that the daemon reads its configuration again. Ready must follow.
func (n *Notifier) Reloading() {
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping reports that the daemon stops, and how long that may take. systemd extends
// the unit's timeout to that time.
func (n *Notifier) Stopping(within time.Duration) {
	n.send(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, within.Microseconds()))
}

// Status sets the line that systemctl status shows. Only changes are sent.
func (n *Notifier) Status(text string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text != n.status && n.sendLocked("STATUS="+text) {
		n.status = text
	}
}

// Watchdog sends signs of life to systemd, three in each interval, until ctx ends.
// While alive returns an error it sends none, so that systemd kills the process; it
// logs the first such error. Without a watchdog in the unit it returns at once.
func (n *Notifier) Watchdog(ctx context.Context, alive func() error) {
	if n == nil || n.addr == nil || n.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(max(n.watchdog/3, time.Millisecond))
	defer ticker.Stop()
	stuck := outage.New(n.log, slog.LevelError, "not alive; sending systemd's watchdog no sign of life", "alive again")
	for {
		if err := alive(); err == nil {
			n.send(daemon.SdNotifyWatchdog)
			stuck.End()
		} else {
			stuck.Begin("reason", err, "within", n.watchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// send sends one message.
func (n *Notifier) send(state string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sendLocked(state)
}

// sendLocked sends a message, and reports whether it could be sent. mu is held.
func (n *Notifier) sendLocked(state string) bool {
	if n.addr == nil {
		return true
	}
	err := write(n.addr, state)
	if err == nil {
		n.outage.End()
	} else {
		n.outage.Begin("message", state, "error", err)
	}
	return err == nil
}

// write makes a new connection for each message, since systemd may have restarted.
func write(addr *net.UnixAddr, state string) error {
	conn, err := net.DialUnix(addr.Net, nil, addr)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("set the deadline of a message to systemd: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("send to systemd: %w", err)
	}
	return nil
}
