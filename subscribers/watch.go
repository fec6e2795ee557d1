package subscribers

import (
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// A watch logs each change of a subscription once. Its methods are
// called one after the other.
type watch struct {
	store          *notify.Store
	redis, carrier *outage.Notice

	awaited *outage.Notice // begins unless the awaited event comes; nil: none is awaited
	cancel  func()         // cancels awaited
}

func newWatch(s *notify.Store, log *slog.Logger) *watch {
	return &watch{
		store:   s,
		redis:   outage.New(log, slog.LevelError, "cannot subscribe to redis; retrying", "subscribed to redis again"),
		carrier: outage.New(log, slog.LevelWarn, "no carrier is heard, so nothing scheduled becomes due; is one running?", "a carrier is heard again"),
	}
}

// begin awaits the subscription; end awaits nothing any more.
func (w *watch) begin() { w.await(w.redis, "error", w.store.NoAnswer()) }
func (w *watch) end()   { w.await(nil) }

// await lets a notice begin after a while, with keys and values, in place of the one before.
func (w *watch) await(n *outage.Notice, args ...any) {
	if w.awaited == n {
		return
	}
	if w.awaited != nil {
		w.cancel()
	}
	if w.awaited = n; n != nil {
		w.cancel = n.After(store.Patience, args...)
	}
}

func (w *watch) note(event store.Event) {
	switch event.Kind {
	case store.Subscribed:
		w.await(w.carrier, "for", store.Patience) // goes on if the connection was only renewed
		w.redis.End()
	case store.Beat:
		w.await(nil)
		w.carrier.End()
	case store.Silent:
		w.carrier.Begin("for", store.Silence)
	case store.Broken:
		w.await(nil)
		w.redis.Note(event.Err)
	}
}
