package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
)

// A plot is a river, and the links to its spans.
type plot struct {
	*river.River
	Spans []choice
}

// plotOf returns a river without bars of what the address of a page asks for, and how far it goes.
func plotOf(v *visit, what string, now time.Time) (*plot, river.Span) {
	span := river.SpanOf(v.query("span"))
	p := &plot{River: river.New(what, span, now)}
	for _, one := range river.Spans {
		p.Spans = append(p.Spans, choice{one.Text, v.Link("span", one.Name), one.Name == span.Name})
	}
	return p, span
}

// A pastOf shows what happened before a bucket of the present, and within it, in a river.
type pastOf func(ctx context.Context, r *river.River, present time.Time, span river.Span) error

// river returns the river of some topics: of all if there are no patterns. It is nil while
// that is counted. The error may be a MissingError.
func (c *Console) river(ctx context.Context, v *visit, what string, now time.Time, topics []notify.Pattern, past pastOf) (*plot, error) {
	p, span := plotOf(v, what, now)
	f, err := c.snapshots.comes.of(ctx, forecast.Options{Bucket: span.Step, Count: span.Buckets, Topics: topics}, c.waits(ctx, topics))
	if f.From.IsZero() {
		return nil, err
	}
	if err = store.Missing(err, past(ctx, p.River, f.From, span)); err != nil && !store.IsPartial(err) {
		return nil, err
	}
	p.AddDue(f)
	return p, err
}

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
