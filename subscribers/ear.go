package subscribers

import (
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// An ear logs what becomes of a connection that listens, once for each change. Its
// methods are called one after the other.
type ear struct {
	store          *notify.Store
	redis, carrier *outage.Notice

	awaited *outage.Notice // begins unless what is waited for comes; nil: nothing is
	cancel  func()         // that
}

func newEar(s *notify.Store, log *slog.Logger) *ear {
	return &ear{
		store:   s,
		redis:   outage.New(log, slog.LevelError, "cannot listen to redis; retrying", "listening again"),
		carrier: outage.New(log, slog.LevelWarn, "no carrier is heard, so nothing scheduled becomes due; is one running?", "a carrier is heard again"),
	}
}

// begin waits for the connection, and end for nothing more.
func (e *ear) begin() { e.await(e.redis, "error", e.store.NoAnswer()) }
func (e *ear) end()   { e.await(nil) }

// await has a notice begin after a while, with keys and values, in place of the one before.
func (e *ear) await(n *outage.Notice, args ...any) {
	if e.awaited == n {
		return
	}
	if e.awaited != nil {
		e.cancel()
	}
	if e.awaited = n; n != nil {
		e.cancel = n.After(store.Patience, args...)
	}
}

func (e *ear) note(event store.Event) {
	switch event.Kind {
	case store.Subscribed:
		e.await(e.carrier, "for", store.Patience) // goes on where the connection was only made anew
		e.redis.End()
	case store.Beat:
		e.await(nil)
		e.carrier.End()
	case store.Silent:
		e.carrier.Begin("for", store.Silence)
	case store.Broken:
		e.await(nil)
		e.redis.Note(event.Err)
	}
}
