package natsgate

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/outage"
)

// A link logs each change of the connection to NATS once.
type link struct {
	log   *slog.Logger
	urls  string // of the servers, without secrets
	count *counters

	state string // that was logged last
	since time.Time
}

// The states of a link; empty: nothing was logged yet.
const (
	linkUp        = "up"
	linkAway      = "away"
	linkRefused   = "refused"
	linkUntrusted = "untrusted"
)

// up counts and logs a new connection.
func (l *link) up(server string) {
	l.count.connects.Add(1)
	l.count.connected.Store(true)
	if l.state == "" {
		l.log.Info("connected to nats", "server", server)
	} else {
		l.log.Info("connected to nats again", "server", server, "after", time.Since(l.since).Round(time.Millisecond).String())
	}
	l.change(linkUp)
}

// down counts and logs why there is no connection.
func (l *link) down(err error) {
	l.count.connected.Store(false)
	state := linkAway
	switch {
	case LockedOut(err):
		state = linkRefused
		l.count.credentialsRefused.Add(1)
	case Untrusted(err):
		state = linkUntrusted
	}
	if state == l.state {
		return
	}
	switch state {
	case linkAway:
		l.log.Warn("nats is away; retrying", "servers", l.urls, "error", err)
	case linkRefused:
		l.log.Error("nats refuses the credentials; retrying", "servers", l.urls, "error", err)
	case linkUntrusted:
		l.log.Error("no secure connection to nats; retrying", "servers", l.urls, "error", err)
	}
	l.change(state)
}

// change sets the state, and since when NATS is connected or away.
func (l *link) change(state string) {
	if l.state == "" || l.state == linkUp || state == linkUp {
		l.since = time.Now()
	}
	l.state = state
}

// notices hold what was logged already on this connection.
type notices struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*outage.Notice
}

// of returns the notice of a kind.
func (n *notices) of(kind string) *outage.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	notice := n.kinds[kind]
	if notice == nil {
		notice = outage.New(n.log, slog.LevelWarn, kind, "over: "+kind)
		n.kinds[kind] = notice
	}
	return notice
}

// begin logs an error of a kind, if there was none on this connection.
func (n *notices) begin(kind string, err error, subject string) {
	n.of(kind).Begin("error", err, "subject", subject)
}

// reset forgets what was logged.
func (n *notices) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.kinds)
}

// asyncError counts the errors that a connection reports outside of calls, and
// logs the first of each kind.
func (g *Gate) asyncError(c *connection, sub *nats.Subscription, err error) {
	var subject string
	if sub != nil {
		subject = sub.Subject
	}
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		g.count.floods.Add(1)
		g.notices.begin("requests come faster than they are handled; some are lost", err, subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		g.count.permissions.Add(1)
		g.deny(c, err)
		g.notices.begin("nats does not permit a subject", err, subject)
	default:
		g.count.faults.Add(1)
		g.o.Logger.Debug("nats client", "error", err) // it ends the connection, which is logged then
	}
}
