package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	fewTopics = 200 // that are counted each time for an overview
	fewFor    = 10 * time.Second
)

// A pastOf shows what happened before a bucket of the present, and within it, in a river.
type pastOf func(ctx context.Context, r *river.River, present time.Time, span river.Span) error

// storePast shows what was delivered of the whole store. A bucket of which nothing was noted is unknown.
func (c *Console) storePast(ctx context.Context, r *river.River, present time.Time, span river.Span) error {
	from, to := present.Add(-time.Duration(span.Buckets)*span.Step), present.Add(span.Step)
	bars, err := c.caches.past.Get(ctx, fmt.Sprint(span.Name, present.Unix()), cache.Keep{Age: span.Every}, func(ctx context.Context) ([]river.Bar, error) {
		samples, err := history.Read(ctx, c.store, from, to)
		bars := span.Bars(from)
		late := make([]history.Histogram, len(bars))
		for _, s := range samples {
			i := min(int(s.Time.Sub(from)/span.Step), span.Buckets)
			bars[i].AddPast(s.Claimed)
			late[i].Add(s.Late)
		}
		for i, h := range late {
			if h.Sum() > 0 {
				bars[i].P50, bars[i].P99 = new(h.Quantile(0.5)), new(h.Quantile(0.99))
			}
		}
		return bars, err
	})
	r.Word, r.Class, r.Bars = "delivered", "ok", slices.Clone(bars)
	return err
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
		c.snapshots.Seen(topics, r.Bars)
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
			_, missing := c.ratedWithin(ctx, topics, snapshots.StoreEvery)
			err = store.Missing(err, missing)
		}
		return store.Missing(err, c.seenPast(topics...)(ctx, r, present, span))
	}
}

// few returns the topics that a viewer sees, if they are few enough to count them each time.
func (c *Console) few(ctx context.Context, v *visit) (topics []string, few bool, err error) {
	in, err := v.scope("")
	if err != nil {
		return nil, false, err
	}
	part, err := c.caches.topics.Get(ctx, "few "+in.key, cache.Keep{Age: fewFor}, func(ctx context.Context) (part topicsPart, err error) {
		part.names, part.next, err = c.namesAfter(ctx, in, "", fewTopics)
		return part, err
	})
	return part.names, part.next == "", err
}
