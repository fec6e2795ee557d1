package main

import (
	"fmt"
	"time"
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

// when returns a time and its distance from now; "-" for none.
func (a *app) when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return a.stamp(t) + " (" + relative(time.Until(t)) + ")"
}

// relative formats the distance of a time from now, such as "in 29m58s" or "3s ago".
func relative(d time.Duration) string {
	if d < 0 {
		return rough(-d) + " ago"
	}
	return "in " + rough(d)
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
