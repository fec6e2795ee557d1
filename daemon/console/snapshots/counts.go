package snapshots

import (
	"context"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// A Counted is the counts of a topic, and how fast they grow.
type Counted struct {
	notify.Counts
	Per *Rates // nil: unknown yet
}

// Rates are what a topic got and lost a second.
type Rates struct{ Published, Acked, Sent, Died float64 }

// Sum returns all that came and went a second.
func (r *Rates) Sum() float64 {
	if r == nil {
		return 0
	}
	return r.Published + r.Acked + r.Sent
}

// countsKept are the counts of topics whose rows are on a screen.
type countsKept struct {
	store     *notify.Store
	inspector *notify.Inspector

	mutex cache.Mutex
	of    map[string]countsAt
	wakes wakes

	away   error // why Redis did not answer last; nil: it did
	awayAt time.Time
}

// A countsAt is the counts of a topic at a time, or why there are none.
type countsAt struct {
	Counted
	err error
	at  time.Time
}

// Count returns the counts of some topics, in their order, with the rates since the counts before, where there are some: those that are
// older than a second are read in one call. Errors: that of the connection; or a MissingError beside the counts of the topics of other shards.
func (k *countsKept) Count(ctx context.Context, topics []string) ([]Counted, error) {
	return k.CountWithin(ctx, topics, Rhythm)
}

// CountWithin is Count for counts of another age at most.
func (k *countsKept) CountWithin(ctx context.Context, topics []string, age time.Duration) ([]Counted, error) {
	if err := k.mutex.LockWithin(ctx, cache.ReadWithin); err != nil {
		return nil, err
	}
	defer k.mutex.Unlock()
	now := time.Now()
	var old []string
	for _, topic := range topics {
		if now.Sub(k.of[topic].at) >= age-Rhythm/10 {
			old = append(old, topic)
		}
	}
	if len(old) > 0 {
		if k.away != nil && now.Sub(k.awayAt) < Rhythm { // pages of other topics would wait for it one after the other
			return nil, k.away
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cache.ReadWithin) // for other viewers, too
		defer cancel()
		fresh, err := k.inspector.Count(ctx, old...)
		k.away, k.awayAt = nil, time.Now()
		if !store.IsPartial(err) && (notify.Retryable(err) || errors.Is(err, context.DeadlineExceeded)) {
			k.away = err
		}
		redis, _ := k.store.Now(ctx) // its error is that of the counts
		k.put(old, fresh, err, k.awayAt, redis)
	}
	counts := make([]Counted, 0, len(topics))
	var missing error
	for _, topic := range topics {
		one := k.of[topic]
		switch {
		case one.err == nil:
			counts = append(counts, one.Counted)
		case !store.IsPartial(one.err):
			return nil, one.err
		default:
			missing = store.Missing(missing, one.err)
		}
	}
	return counts, missing
}

// put keeps fresh counts of topics that are old, and the error for those that have none. It
// drops topics that nobody looks at. Bars are of the time of Redis.
func (k *countsKept) put(old []string, fresh []notify.Counts, err error, now, redis time.Time) {
	for topic, c := range k.of {
		if now.Sub(c.at) > awayAfter {
			delete(k.of, topic)
		}
	}
	if k.of == nil {
		k.of, k.wakes = make(map[string]countsAt), make(wakes)
	}
	k.wakes.forget(redis)
	found := make(map[string]notify.Counts, len(fresh))
	for _, c := range fresh {
		found[c.Topic] = c
	}
	for _, topic := range old {
		next := countsAt{at: now}
		if c, there := found[topic]; there {
			next.Counted = Counted{c, k.of[topic].ratesUntil(c, now)}
			k.wakes.add(topic, c.Acked, redis)
		} else {
			next.err = err
		}
		k.of[topic] = next
	}
}

// ratesUntil returns the rates from these counts to later ones; nil: they are unknown.
func (c countsAt) ratesUntil(later notify.Counts, now time.Time) *Rates {
	if c.at.IsZero() || c.err != nil {
		return nil
	}
	return everOf(c.Counts).until(everOf(later), now.Sub(c.at))
}

// An ever is what a topic, or a store, ever got and lost.
type ever struct{ published, acked, sent, died int64 }

func everOf(c notify.Counts) ever { return ever{c.Published, c.Acked, c.Sent, c.Died} }

// until returns the rates to later figures. Less than before: the topic was forgotten meanwhile, or Redis lost its data.
func (e ever) until(later ever, took time.Duration) *Rates {
	per := func(before, after int64) float64 { return float64(max(0, after-before)) / took.Seconds() }
	return &Rates{per(e.published, later.published), per(e.acked, later.acked), per(e.sent, later.sent), per(e.died, later.died)}
}

// forget has a topic counted again at once.
func (k *countsKept) forget(topic string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.of, topic)
}

// forgetAll has all topics counted again at once.
func (k *countsKept) forgetAll() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	clear(k.of)
}

// Seen adds what was acknowledged of topics while somebody looked to bars of a minute.
func (k *countsKept) Seen(topics []string, bars []river.Bar) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.wakes.seen(topics, bars)
}
