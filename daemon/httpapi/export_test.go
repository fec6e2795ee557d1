package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// A Timing is how long clients may take, in place of the usual; zero: the usual.
type Timing struct{ Header, Body, Answer, Idle, Quiet, Closed time.Duration }

// NewTimed is New with a timing of the test's own.
func NewTimed(store *notify.Store, o Options, own Timing) (*Gate, error) {
	t := defaultTiming
	for _, one := range []struct {
		to   *time.Duration
		from time.Duration
	}{
		{&t.header, own.Header},
		{&t.body, own.Body},
		{&t.answer, own.Answer},
		{&t.idle, own.Idle},
		{&t.quiet, own.Quiet},
		{&t.closed, own.Closed},
	} {
		if one.from > 0 {
			*one.to = one.from
		}
	}
	return newGate(store, o, t)
}

// MachineNames returns the names that a machine goes by.
var MachineNames = machineNames

// Handler returns what answers requests, for tests that need no connection.
func (g *Gate) Handler() http.Handler { return g.server.Handler }

// How many bytes the calls of one token may hold at a time.
const (
	MemoryOfToken = memoryOfToken
	MemoryOfSmall = memoryOfSmall
)

// Logins count requests that are refused.
type Logins struct{ logins }

// Refuse counts one of a client.
func (l *Logins) Refuse(log *slog.Logger, client string) { l.refuse(log, client, errUnknownToken) }
