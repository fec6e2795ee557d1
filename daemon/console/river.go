package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
)

// A river is what happened, and what falls due, over time: a plot, and a table.
type river struct {
	Title   string
	Spans   []choice
	Word    string // what happened: delivered, acknowledged or died; empty: the past is not shown
	Class   string // of the style, for that
	Comes   bool   // what falls due is shown
	Recurs  bool   // and what schedules are to make
	Note    string // on what is shown of the past
	Bars    []riverBar
	Later   int64  // messages that fall due behind the last bar
	Overdue int64  // that are due, and were not carried yet
	Earlier int64  // that died before the first bar
	AllTill string // until when all is counted that schedules are to make; empty: to the end
	unit    string
	now     time.Time
	step    time.Duration
}

// A riverBar is a bucket of time.
type riverBar struct {
	At         time.Time
	Past       *int64 // nil: unknown
	Due        *int64 // nil: it is over
	Broadcasts int64  // that fall due, beside Due
	Recurring  int64  // that schedules are to make, beside both
	P50, P99   *time.Duration
}

// A riverOf is how far a river goes before and behind now.
type riverOf struct {
	name, text, unit string
	step             time.Duration
	buckets          int           // on each side
	every            time.Duration // its past is read
}

var riverSpans = []riverOf{
	{"hour", "hour", "a minute", time.Minute, 60, 5 * time.Second},
	{"day", "day", "an hour", time.Hour, 24, time.Minute},
	{"week", "week", "a day", forecast.Day, 7, time.Minute},
	{"month", "30 days", "a day", forecast.Day, 30, time.Minute},
}

// spanned returns a river without bars of what the address of a page asks for, and how far it goes.
func spanned(v *visit, what string, now time.Time) (*river, riverOf) {
	span := riverSpans[0]
	for _, one := range riverSpans {
		if one.name == v.query("span") {
			span = one
		}
	}
	r := &river{Title: what + " " + span.unit, unit: span.unit, now: now, step: span.step}
	for _, one := range riverSpans {
		r.Spans = append(r.Spans, choice{one.text, v.Link("span", one.name), one.name == span.name})
	}
	return r, span
}

// A pastOf shows what happened before a bucket of the present, and within it, in a river.
type pastOf func(ctx context.Context, r *river, present time.Time, span riverOf) error

// river returns the river of some topics: of all if there are no patterns. It is nil while
// that is counted. The error may be a MissingError.
func (c *Console) river(ctx context.Context, v *visit, what string, now time.Time, topics []notify.Pattern, past pastOf) (*river, error) {
	r, span := spanned(v, what, now)
	f, err := c.snapshots.comes.of(ctx, forecast.Options{Bucket: span.step, Count: span.buckets, Topics: topics}, c.waits(ctx, topics))
	if f.From.IsZero() {
		return nil, err
	}
	if err = store.Missing(err, past(ctx, r, f.From, span)); err != nil && !store.IsPartial(err) {
		return nil, err
	}
	r.add(f)
	return r, err
}

// add adds what falls due. The first bucket of it may be the last of the past.
func (r *river) add(f forecast.Forecast) {
	r.Comes, r.Later, r.Overdue, r.Recurs = true, f.Later, f.Overdue, f.Recurring != nil
	if !f.RecurringUntil.IsZero() {
		r.AllTill = moment(f.RecurringUntil)
	}
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
		if r.Recurs {
			b.Recurring = f.Recurring[i]
		}
	}
}

// storePast shows what was delivered of the whole store. A bucket of which nothing was noted is unknown.
func (c *Console) storePast(ctx context.Context, r *river, present time.Time, span riverOf) error {
	from, to := present.Add(-time.Duration(span.buckets)*span.step), present.Add(span.step)
	bars, err := c.caches.past.Get(ctx, fmt.Sprint(span.name, present.Unix()), cache.Keep{Age: span.every}, func(ctx context.Context) ([]riverBar, error) {
		samples, err := history.Read(ctx, c.store, from, to)
		bars := barsFrom(from, span)
		late := make([]history.Histogram, len(bars))
		for _, s := range samples {
			i := min(int(s.Time.Sub(from)/span.step), span.buckets)
			bars[i].addPast(s.Claimed)
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

// barsFrom returns bars of which nothing is known, from a time until that of now.
func barsFrom(from time.Time, span riverOf) []riverBar {
	bars := make([]riverBar, span.buckets+1)
	for i := range bars {
		bars[i].At = from.Add(time.Duration(i) * span.step)
	}
	return bars
}

// addPast adds to what happened.
func (b *riverBar) addPast(n int64) {
	if b.Past == nil {
		b.Past = new(int64)
	}
	*b.Past += n
}

// JSON returns the river as console.js draws it.
func (r *river) JSON() (string, error) {
	drawn := struct {
		Step  float64    `json:"step"` // in seconds, as all times
		Now   int64      `json:"now"`
		Unit  string     `json:"unit"`
		Word  string     `json:"word"`
		Class string     `json:"class"`
		At    []int64    `json:"at"`
		Past  []*int64   `json:"past"`
		Due   []*int64   `json:"due"`
		Recur []int64    `json:"recur"`
		P50   []*float64 `json:"p50"` // in milliseconds
		P99   []*float64 `json:"p99"`
	}{Step: r.step.Seconds(), Now: r.now.Unix(), Unit: r.unit, Word: r.Word, Class: r.Class}
	for _, b := range r.Bars {
		drawn.At = append(drawn.At, b.At.Unix())
		drawn.Past = append(drawn.Past, b.Past)
		drawn.Due = append(drawn.Due, b.Due)
		drawn.Recur = append(drawn.Recur, b.Recurring)
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

// Head returns the head of the column of what happened.
func (r *river) Head() string { return strings.ToUpper(r.Word[:1]) + r.Word[1:] }

// Known returns the bars of which there is something to say.
func (r *river) Known() (some []riverBar) {
	for _, b := range r.Bars {
		if b.Past != nil && *b.Past > 0 || b.Due != nil && cmp.Or(*b.Due, b.Broadcasts, b.Recurring) > 0 {
			some = append(some, b)
		}
	}
	return some
}

// IsLate reports whether it is known how late messages were.
func (r *river) IsLate() bool { return r.Word == "delivered" }

// IsBare reports whether there is nothing to draw.
func (r *river) IsBare() bool { return !r.Comes && len(r.Known()) == 0 }

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
