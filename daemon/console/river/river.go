// Package river shows what happened and what falls due over time, to the left and to the right of now.
package river

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/forecast"
)

// A River is a plot and a table of buckets of time.
type River struct {
	Title   string
	Word    string // what happened: delivered, acknowledged or died; empty: the past is not shown
	Class   string // of the style, for that
	Comes   bool   // what falls due is shown
	Recurs  bool   // and what schedules are to make
	Note    string // on what is shown of the past
	Bars    []Bar
	Later   int64     // messages that fall due behind the last bar
	Overdue int64     // that are due, and were not carried yet
	Earlier int64     // that died before the first bar
	AllTill time.Time // until when all is counted that schedules are to make; zero: to the end
	unit    string
	now     time.Time
	step    time.Duration
}

// A Bar is a bucket of time.
type Bar struct {
	At         time.Time
	Past       *int64 // nil: unknown
	Due        *int64 // nil: it is over
	Broadcasts int64  // that fall due, beside Due
	Recurring  int64  // that schedules are to make, beside both
	P50, P99   *time.Duration
}

// A Span is how far a river goes before and behind now.
type Span struct {
	Name, Text string
	Step       time.Duration // of a bucket
	Buckets    int           // on each side
	Every      time.Duration // its past is read

	unit string
}

// Spans are those that a reader can choose, the usual one first.
var Spans = []Span{
	{"hour", "hour", time.Minute, 60, 15 * time.Second, "a minute"},
	{"day", "day", time.Hour, 24, time.Minute, "an hour"},
	{"week", "week", forecast.Day, 7, time.Minute, "a day"},
	{"month", "30 days", forecast.Day, 30, time.Minute, "a day"},
}

// SpanOf returns the span of a name, or else the usual one.
func SpanOf(name string) Span {
	for _, one := range Spans {
		if one.Name == name {
			return one
		}
	}
	return Spans[0]
}

// Bars returns bars of which nothing is known, from a time until that of now.
func (s Span) Bars(from time.Time) []Bar {
	bars := make([]Bar, s.Buckets+1)
	for i := range bars {
		bars[i].At = from.Add(time.Duration(i) * s.Step)
	}
	return bars
}

// New returns a river without bars, of what its title says.
func New(what string, s Span, now time.Time) *River {
	return &River{Title: what + " " + s.unit, unit: s.unit, now: now, step: s.Step}
}

// AddDue adds what falls due. The first bucket of it may be the last of the past.
func (r *River) AddDue(f forecast.Forecast) {
	r.Comes, r.Later, r.Overdue, r.Recurs, r.AllTill = true, f.Later, f.Overdue, f.Recurring != nil, f.RecurringUntil
	for i, n := range f.Counts {
		at := f.From.Add(time.Duration(i) * r.step)
		if last := len(r.Bars) - 1; last < 0 || !r.Bars[last].At.Equal(at) {
			r.Bars = append(r.Bars, Bar{At: at})
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

// AddPast adds to what happened.
func (b *Bar) AddPast(n int64) {
	if b.Past == nil {
		b.Past = new(int64)
	}
	*b.Past += n
}

// JSON returns the river as console.js draws it.
func (r *River) JSON() (string, error) {
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
	for _, b := range r.Bars[r.unknown():] {
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

// unknown returns how many of the first bars there is nothing to draw for, since nobody noted what happened.
func (r *River) unknown() int {
	return max(0, slices.IndexFunc(r.Bars, func(b Bar) bool { return b.Past != nil || b.Due != nil }))
}

func milliseconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(float64(*d) / float64(time.Millisecond))
}

// Head returns the head of the column of what happened.
func (r *River) Head() string { return strings.ToUpper(r.Word[:1]) + r.Word[1:] }

// Known returns the bars of which there is something to say.
func (r *River) Known() (some []Bar) {
	for _, b := range r.Bars {
		if b.Past != nil && *b.Past > 0 || b.Due != nil && cmp.Or(*b.Due, b.Broadcasts, b.Recurring) > 0 {
			some = append(some, b)
		}
	}
	return some
}

// IsLate reports whether it is known how late messages were.
func (r *River) IsLate() bool { return r.Word == "delivered" }

// IsBare reports whether there is nothing to draw.
func (r *River) IsBare() bool { return len(r.Known()) == 0 }

// fewest is how many bars a plot of what falls due has at least: a table says better what one or two have.
const fewest = 3

// IsDrawn reports whether the river is a plot, and not only a table.
func (r *River) IsDrawn() bool { return !r.Comes || len(r.Known()) >= fewest }

// Clock returns the time of a bar as short as its river permits.
func (r *River) Clock(t time.Time) string {
	switch r.step {
	case time.Minute:
		return t.UTC().Format("15:04")
	case time.Hour:
		return t.UTC().Format("Jan 2, 15:04")
	}
	return t.UTC().Format("Mon, Jan 2")
}
