package natsgate

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/outage"
)

// A link tells how the connection to NATS is, once for each change.
type link struct {
	log   *slog.Logger
	where string // the servers, without secrets
	count *counters

	state string // what was told last
	since time.Time
}

// The states of a link; empty: nothing was told yet.
const (
	linkUp        = "up"
	linkAway      = "away"
	linkRefused   = "refused"
	linkUntrusted = "untrusted"
)

// up tells that a connection stands.
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

// down tells that there is no connection, and why.
func (l *link) down(err error) {
	l.count.connected.Store(false)
	state := linkAway
	switch {
	case refused(err):
		state = linkRefused
		l.count.credentialsRefused.Add(1)
	case untrusted(err):
		state = linkUntrusted
	}
	if state == l.state {
		return
	}
	switch state {
	case linkAway:
		l.log.Warn("nats is away; retrying", "servers", l.where, "error", err)
	case linkRefused:
		l.log.Error("nats refuses the credentials; retrying", "servers", l.where, "error", err)
	case linkUntrusted:
		l.log.Error("no secure connection to nats; retrying", "servers", l.where, "error", err)
	}
	l.change(state)
}

// change keeps in mind since when NATS is away, or there.
func (l *link) change(state string) {
	if l.state == "" || l.state == linkUp || state == linkUp {
		l.since = time.Now()
	}
	l.state = state
}

// told keeps in mind what was logged already on this connection.
type told struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*outage.Notice
}

// of returns the notice of a kind.
func (t *told) of(kind string) *outage.Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.kinds[kind]
	if n == nil {
		n = outage.New(t.log, slog.LevelWarn, kind, "over: "+kind)
		t.kinds[kind] = n
	}
	return n
}

// once logs an error of a kind, if there was none on this connection.
func (t *told) once(kind string, err error, subject string) {
	t.of(kind).Begin("error", err, "subject", subject)
}

// fine logs that what was logged as a kind is over.
func (t *told) fine(kind string) { t.of(kind).End() }

// anew forgets what was logged.
func (t *told) anew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.kinds)
}

// asyncError counts what goes wrong on a connection beside the calls, and logs
// the first of each kind.
func (g *Gate) asyncError(l *line, sub *nats.Subscription, err error) {
	var subject string
	if sub != nil {
		subject = sub.Subject
	}
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		g.count.floods.Add(1)
		g.told.once("requests come faster than they are handled, some are lost", err, subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		g.count.permissions.Add(1)
		g.deny(l, err)
		g.told.once("nats does not permit a subject", err, subject)
	default:
		g.count.faults.Add(1)
		g.o.Logger.Debug("nats client", "error", err) // it ends the connection, which is told then
	}
}
