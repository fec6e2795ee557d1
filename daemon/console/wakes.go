package console

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/notify/store"
)

// The past of topics is what their counts said while somebody looked: the store notes that of all topics together.
const (
	wakeMinutes = 61              // that are kept: an hour, and the present minute
	wakeFor     = 5 * time.Minute // it is kept when nobody looks
	mostWakes   = 1000            // topics that have one
	fewTopics   = 200             // that are counted each second for an overview
	fewFor      = 10 * time.Second
)

// A wake is what was acknowledged of a topic in each minute in which somebody looked at it.
type wake struct {
	acked   int64     // ever, when it was counted last
	at      time.Time // of that
	minutes [wakeMinutes]struct{ minute, acked int64 }
}

// add takes what was ever acknowledged until now. What was while nobody looked is left out.
func (w *wake) add(acked int64, now time.Time) {
	if gap := now.Sub(w.at); gap >= 0 && gap <= quiet && acked >= w.acked { // less: the topic was forgotten meanwhile
		minute := now.Unix() / 60
		m := &w.minutes[minute%wakeMinutes]
		if m.minute != minute {
			m.minute, m.acked = minute, 0
		}
		m.acked += acked - w.acked
	}
	w.acked, w.at = acked, now
}

// wakes are those of the topics that somebody looks at, or did lately.
type wakes map[string]*wake

// add takes what was ever acknowledged of a topic.
func (all wakes) add(topic string, acked int64, now time.Time) {
	w := all[topic]
	if w == nil && len(all) < mostWakes {
		w = &wake{}
		all[topic] = w
	}
	if w != nil {
		w.add(acked, now)
	}
}

// forget drops those of topics that nobody looked at for long.
func (all wakes) forget(now time.Time) {
	for topic, w := range all {
		if now.Sub(w.at) > wakeFor {
			delete(all, topic)
		}
	}
}

// seen adds what was acknowledged of topics to bars of a minute.
func (k *countsKept) seen(topics []string, bars []river.Bar) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	first, last := bars[0].At.Unix()/60, int64(len(bars)-1)
	for _, topic := range topics {
		if w := k.wakes[topic]; w != nil {
			for _, m := range w.minutes {
				if i := m.minute - first; i >= 0 {
					bars[min(i, last)].AddPast(m.acked)
				}
			}
		}
	}
}

// seenPast shows what was acknowledged of some topics while somebody looked at them.
func (c *Console) seenPast(topics ...string) pastOf {
	return func(_ context.Context, r *river.River, present time.Time, span river.Span) error {
		if span.Step != time.Minute {
			r.Note = "Of the past, only what comes while the page is open is known: the hour shows it."
			return nil
		}
		r.Word, r.Class = "acknowledged", "ok"
		r.Note = "Of the past, only what came while the page was open is known."
		r.Bars = span.Bars(present.Add(-time.Duration(span.Buckets) * span.Step))
		c.snapshots.counts.seen(topics, r.Bars)
		return nil
	}
}

// somePast is seenPast of the topics that a viewer sees, if these are few: they are counted for it.
func (c *Console) somePast(v *visit) pastOf {
	return func(ctx context.Context, r *river.River, present time.Time, span river.Span) error {
		topics, few, err := c.few(ctx, v)
		if err != nil && !store.IsPartial(err) {
			return err
		}
		if !few {
			r.Note = fmt.Sprintf("The past is not known: topics are counted for it up to %d, and your token may see more.", fewTopics)
			return err
		}
		if span.Step == time.Minute {
			_, missing := c.snapshots.rated(ctx, topics)
			err = store.Missing(err, missing)
		}
		return store.Missing(err, c.seenPast(topics...)(ctx, r, present, span))
	}
}

// few returns the topics that a viewer sees, if they are few enough to count them each second.
func (c *Console) few(ctx context.Context, v *visit) (topics []string, few bool, err error) {
	in, err := v.scope("")
	if err != nil {
		return nil, false, err
	}
	part, err := c.caches.topics.Get(ctx, "few "+in.key, cache.Keep{Age: fewFor}, func(ctx context.Context) (part topicsPart, err error) {
		if len(in.patterns) == 0 {
			return part, nil
		}
		counts, next, err := c.inspector.TopicsAfter(ctx, "", fewTopics, in.patterns...)
		for _, one := range counts {
			if in.has(one.Topic) {
				part.names = append(part.names, one.Topic)
			}
		}
		part.next = next
		return part, err
	})
	return part.names, part.next == "", err
}
