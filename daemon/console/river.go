package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
)

// A river is what was delivered, and what falls due, over time.
type river struct {
	Span    string // hour, day or week
	Spans   []riverSpan
	Bucket  string // a minute, an hour or a day
	HasPast bool   // the viewer may see it
	Bars    []riverBar
	Later   int64 // messages that fall due behind the last bar
	now     time.Time
	step    time.Duration
}

// A riverSpan is one that a viewer may choose.
type riverSpan struct {
	Name, Link string
	Chosen     bool
}

// A riverBar is a bucket of time.
type riverBar struct {
	At         time.Time
	Delivered  *int64 // nil: unknown
	Due        *int64 // nil: it is over
	Broadcasts int64  // that fall due, beside Due
	P50, P99   *time.Duration
}

// A riverOf is how far a river goes before and behind now.
type riverOf struct {
	name, bucket string
	step         time.Duration
	buckets      int           // on each side
	every        time.Duration // its past is read
}

var riverSpans = []riverOf{
	{"hour", "a minute", time.Minute, 60, 5 * time.Second},
	{"day", "an hour", time.Hour, 24, time.Minute},
	{"week", "a day", forecast.Day, 7, time.Minute},
}

// river returns the river as a viewer may see it: what is to come of the viewer's topics, and
// the past of the whole store for whoever may see that. The error may be a MissingError.
func (c *Console) river(ctx context.Context, v *visit, now time.Time) (*river, error) {
	span := riverSpans[0]
	r := &river{now: now}
	for _, one := range riverSpans {
		if one.name == v.query("river") {
			span = one
		}
	}
	for _, one := range riverSpans {
		r.Spans = append(r.Spans, riverSpan{one.name, v.Link("river", one.name), one.name == span.name})
	}
	r.Span, r.Bucket, r.step = span.name, span.bucket, span.step
	o := forecast.Options{Bucket: span.step, Count: span.buckets}
	if !v.SeesAll() {
		o.Topics = v.Patterns
	}
	f, err := c.snapshots.comes.of(ctx, o)
	if len(f.Counts) == 0 {
		return nil, err
	}
	r.Later = f.Later
	if v.SeesStore() {
		past, missing := c.past(ctx, f.From, span)
		if err = store.Missing(err, missing); err != nil && !store.IsPartial(err) {
			return nil, err
		}
		r.HasPast, r.Bars = true, slices.Clone(past)
	}
	r.add(f)
	return r, err
}

// add adds what falls due. The first bucket of it may be the last of the past.
func (r *river) add(f forecast.Forecast) {
	for i, n := range f.Counts {
		at := f.From.Add(time.Duration(i) * r.step)
		if last := len(r.Bars) - 1; last < 0 || !r.Bars[last].At.Equal(at) {
			r.Bars = append(r.Bars, riverBar{At: at})
		}
		b := &r.Bars[len(r.Bars)-1]
		if b.Due = &n; i == 0 {
			n += f.Overdue
		}
		if i < len(f.Broadcasts) {
			b.Broadcasts = f.Broadcasts[i]
		}
	}
}

// past returns what was delivered before a bucket of the present, and within it. A bucket of
// which nothing was noted is unknown.
func (c *Console) past(ctx context.Context, now time.Time, span riverOf) ([]riverBar, error) {
	from, to := now.Add(-time.Duration(span.buckets)*span.step), now.Add(span.step)
	return c.shelves.past.get(ctx, fmt.Sprint(span.name, now.Unix()), keep{age: span.every}, func(ctx context.Context) ([]riverBar, error) {
		samples, err := history.Read(ctx, c.store, from, to)
		bars := make([]riverBar, span.buckets+1)
		late := make([]history.Histogram, len(bars))
		for i := range bars {
			bars[i].At = from.Add(time.Duration(i) * span.step)
		}
		for _, s := range samples {
			i := min(int(s.Time.Sub(from)/span.step), span.buckets)
			b := &bars[i]
			if b.Delivered == nil {
				b.Delivered = new(int64)
			}
			*b.Delivered += s.Claimed
			late[i].Add(s.Late)
		}
		for i, h := range late {
			if h.Sum() > 0 {
				bars[i].P50, bars[i].P99 = new(h.Quantile(0.5)), new(h.Quantile(0.99))
			}
		}
		return bars, err
	})
}

// JSON returns the river as console.js draws it.
func (r *river) JSON() (string, error) {
	drawn := struct {
		Step      float64    `json:"step"` // in seconds, as all times
		Now       int64      `json:"now"`
		Unit      string     `json:"unit"`
		At        []int64    `json:"at"`
		Delivered []*int64   `json:"delivered"`
		Due       []*int64   `json:"due"`
		P50       []*float64 `json:"p50"` // in milliseconds
		P99       []*float64 `json:"p99"`
	}{Step: r.step.Seconds(), Now: r.now.Unix(), Unit: r.Bucket}
	for _, b := range r.Bars {
		drawn.At = append(drawn.At, b.At.Unix())
		drawn.Delivered = append(drawn.Delivered, b.Delivered)
		drawn.Due = append(drawn.Due, b.Due)
		drawn.P50 = append(drawn.P50, milliseconds(b.P50))
		drawn.P99 = append(drawn.P99, milliseconds(b.P99))
	}
	data, err := json.Marshal(drawn)
	return string(data), err
}

func milliseconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(float64(*d) / float64(time.Millisecond))
}

// Known returns the bars of which there is something to say.
func (r *river) Known() (some []riverBar) {
	for _, b := range r.Bars {
		if b.Delivered != nil && *b.Delivered > 0 || b.Due != nil && cmp.Or(*b.Due, b.Broadcasts) > 0 {
			some = append(some, b)
		}
	}
	return some
}

// Clock returns the time of a bar as short as its river permits.
func (r *river) Clock(t time.Time) string {
	switch r.step {
	case time.Minute:
		return t.UTC().Format("15:04")
	case time.Hour:
		return t.UTC().Format("Jan 2, 15:04")
	}
	return t.UTC().Format("Mon, Jan 2")
}
