package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// stampLayout is RFC 3339 with milliseconds.
const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// stamp returns a time as it is printed: in the local zone for people, on a
// terminal, and in UTC elsewhere, so that programs and machines agree.
func (a *app) stamp(t time.Time) string {
	if isTerminal(a.out) {
		return t.Local().Format(stampLayout)
	}
	return t.UTC().Format(stampLayout)
}

// tellsWithin is how long Redis may take to tell the time.
const tellsWithin = 2 * time.Second

// now returns the time by Redis's clock, by which all times of messages are. It is zero if
// Redis does not tell it, and for JSON: what is printed then has no distances from it.
func (a *app) now(ctx context.Context, s *session) time.Time {
	if a.json {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, tellsWithin)
	defer cancel()
	now, err := s.store.Now(ctx)
	if err != nil {
		return time.Time{}
	}
	return now
}

// when returns a time and its distance from now; "-" for none.
func (a *app) when(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case now.IsZero():
		return a.stamp(t)
	}
	return a.stamp(t) + " (" + relative(t, now) + ")"
}

// relative returns the distance of a time from now, such as "in 29m58s", "3s ago" or "in 6974y36d"; "-" where either is unknown.
func relative(t, now time.Time) string {
	switch {
	case t.IsZero() || now.IsZero():
		return "-"
	case t.Before(now):
		return distance(t, now) + " ago"
	}
	return "in " + distance(now, t)
}

// distance returns how far a time is before another.
func distance(from, to time.Time) string {
	if years, days := record.Apart(from, to); years > 0 {
		return fmt.Sprintf("%dy%dd", years, days)
	}
	return rough(to.Sub(from))
}

// rough returns a duration in at most two of its units.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d.Round(time.Second) < time.Hour:
		return d.Round(time.Second).String()
	case d.Round(time.Minute) < day:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// lateness formats a lateness: below 10 s in milliseconds.
func lateness(d time.Duration) string {
	if d >= 10*time.Second {
		return rough(d)
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
