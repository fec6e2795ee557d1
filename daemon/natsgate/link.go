package natsgate

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
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

// refusals are the errors by which a server refuses the credentials.
var refusals = []string{
	nats.AUTHORIZATION_ERR, nats.AUTHENTICATION_EXPIRED_ERR, nats.AUTHENTICATION_REVOKED_ERR, nats.ACCOUNT_AUTHENTICATION_EXPIRED_ERR,
}

// LockedOut reports whether a server refused the credentials.
func LockedOut(err error) bool {
	text := strings.ToLower(err.Error())
	for _, sign := range refusals {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Untrusted reports whether a secure connection could not be made.
func Untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.Is(err, nats.ErrTLS) || errors.Is(err, nats.ErrSecureConnWanted)
}
