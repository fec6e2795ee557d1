package subscribers

import (
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A watch logs each change of a subscription once, of several shards that of each. Its
// methods are called one after the other.
type watch struct {
	*shardWatch // of the first shard, whose subscription is awaited from the beginning
	first       store.Shard
	others      map[int]*shardWatch // of other shards, by number
	log         *slog.Logger
}

// newSummary returns what sums up the logs of many shards: a server that is away, or is back, takes all of its shards along.
func newSummary(log *slog.Logger) *outage.Summary { return outage.NewSummary(log, 1) }

// A shardWatch is a watch of one shard.
type shardWatch struct {
	redis, carrier *outage.Notice
	patience       time.Duration // with which an event is awaited

	silent  bool           // the connection that no beat came over is being renewed
	awaited *outage.Notice // begins unless the awaited event comes; nil: none is awaited
	cancel  func()         // cancels awaited
}

func newWatch(first store.Shard, log *slog.Logger) *watch {
	return &watch{shardWatch: newShardWatch(first, log), first: first, others: make(map[int]*shardWatch), log: log}
}

func newShardWatch(shard store.Shard, log *slog.Logger) *shardWatch {
	return &shardWatch{
		redis:   outage.New(log, slog.LevelError, "cannot subscribe to redis; retrying", "subscribed to redis again").Patient(),
		carrier: outage.New(log, slog.LevelWarn, "no carrier is heard, so nothing scheduled becomes due; is one running?", "a carrier is heard again"),

		patience: shard.Store().Bear(reach.Patience),
	}
}

// begin awaits the subscription; end awaits nothing any more.
func (w *watch) begin() {
	w.await(w.redis, append(which(w.first), "error", w.first.Store().NoAnswer())...)
}

func (w *watch) end() {
	w.await(nil)
	for _, other := range w.others {
		other.await(nil)
	}
}

// await lets a notice begin after a while, with keys and values, in place of the one before.
func (w *shardWatch) await(n *outage.Notice, args ...any) {
	if w.awaited == n {
		return
	}
	if w.awaited != nil {
		w.cancel()
	}
	if w.awaited = n; n != nil {
		w.cancel = n.After(w.patience, args...)
	}
}

func (w *watch) note(event store.Event) {
	w.of(event.Shard()).take(event, which(event.Shard()))
}

// which returns the key and value that name one of several shards in a log.
func which(shard store.Shard) []any {
	if label := shard.Label(); label != "" {
		return []any{"shard", label}
	}
	return nil
}

// of returns the watch of a shard.
func (w *watch) of(shard store.Shard) *shardWatch {
	number := shard.Number()
	if number == w.first.Number() {
		return w.shardWatch
	}
	if w.others[number] == nil {
		w.others[number] = newShardWatch(shard, w.log)
	}
	return w.others[number]
}

// take takes an event of the shard that keys and values name.
func (w *shardWatch) take(event store.Event, which []any) {
	switch event.Kind {
	case reach.Subscribed:
		if w.silent {
			w.carrier.Begin(append(which, "for", reach.Silence)...)
		}
		w.silent = false
		w.await(w.carrier, append(which, "for", w.patience)...) // goes on if the connection was only renewed
	case reach.Beat:
		w.await(nil)
		w.redis.End(which...)
		w.carrier.End(which...)
	case reach.Silent:
		w.redis.End(which...) // one that was only subscribed may break at once, as often as it is renewed
		w.silent = true       // whether the carrier is, or Redis, says the next connection
	case reach.Broken:
		w.silent = false
		w.await(nil)
		w.redis.Begin(append(which, "error", event.Err)...)
	}
}
