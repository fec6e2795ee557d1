// Package sd tells the service manager how a daemon is, and takes the
// sockets that it passes on.
//
//	n := sd.New(log) // as early as possible: what starts later must not find these variables
//	...
//	n.Ready()
//	defer n.Stopping(timeout)
//
// Where no systemd started the process all of it does nothing. What a message
// says is in sd_notify(3) and, of the sockets, in sd_listen_fds(3).
package sd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/bellhopd/bellhop/notify/outage"
)

// sendTimeout is how long a message may take: systemd reads them one after the
// other, and a daemon must not wait for it.
const sendTimeout = time.Second

// A Notifier tells systemd how this process is. A nil one, and one outside of
// systemd, tells nothing. Its methods may be called at the same time. A message
// that cannot be sent is logged, the first of several in a row.
type Notifier struct {
	log      *slog.Logger
	addr     *net.UnixAddr // nil: nobody listens
	watchdog time.Duration // within which systemd wants a sign of life; zero: it wants none

	telling *outage.Notice // that a message could not be sent

	mu     sync.Mutex
	status string // that was told last
}

// New returns a notifier for the socket in the environment, and takes that and
// the watchdog's variables out of it: children must not speak for this process.
func New(log *slog.Logger) *Notifier {
	n := &Notifier{log: log, telling: outage.New(log, slog.LevelWarn, "cannot tell systemd", "telling systemd again")}
	if name := os.Getenv("NOTIFY_SOCKET"); name != "" {
		n.addr = &net.UnixAddr{Name: name, Net: "unixgram"}
	}
	_ = os.Unsetenv("NOTIFY_SOCKET") // fails for no valid name
	var err error
	if n.watchdog, err = daemon.SdWatchdogEnabled(true); err != nil {
		log.Warn("cannot read what systemd's watchdog wants", "error", err)
	}
	return n
}

// Ready tells that the daemon serves, after a start or a reload.
func (n *Notifier) Ready() { n.send(daemon.SdNotifyReady) }

// Reloading tells that the daemon reads its configuration again. Ready must follow.
func (n *Notifier) Reloading() {
	n.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping tells that the daemon stops, and how long that may take, so that
// systemd gives it that time where the unit has less.
func (n *Notifier) Stopping(within time.Duration) {
	n.send(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, within.Microseconds()))
}

// Status tells people what the daemon does, on one line. Only a change is sent.
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

// Watchdog feeds systemd's watchdog, three times as often as it wants, until
// ctx ends. While alive returns an error it is not fed, and systemd ends the
// process: the error is logged when that begins. Where no watchdog is set Watchdog
// returns at once.
func (n *Notifier) Watchdog(ctx context.Context, alive func() error) {
	if n == nil || n.addr == nil || n.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(max(n.watchdog/3, time.Millisecond))
	defer ticker.Stop()
	starving := outage.New(n.log, slog.LevelError, "not alive, leaving the watchdog unfed", "alive again")
	for {
		if err := alive(); err == nil {
			n.send(daemon.SdNotifyWatchdog)
			starving.End()
		} else {
			starving.Begin("reason", err, "within", n.watchdog)
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

// sendLocked reports whether a message could be sent.
func (n *Notifier) sendLocked(state string) bool {
	if n.addr == nil {
		return true
	}
	err := write(n.addr, state)
	if err == nil {
		n.telling.End()
	} else {
		n.telling.Begin("message", state, "error", err)
	}
	return err == nil
}

// write connects anew for each message: systemd may have started again meanwhile.
func write(addr *net.UnixAddr, state string) error {
	conn, err := net.DialUnix(addr.Net, nil, addr)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("limit the time of a message to systemd: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("send to systemd: %w", err)
	}
	return nil
}
