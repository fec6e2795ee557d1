package text

import (
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// StampLayout is RFC 3339 with milliseconds.
const StampLayout = "2006-01-02T15:04:05.000Z07:00"

// Relative returns the distance of a time from now, such as "in 29m58s", "3s ago" or "in 6974y36d"; "-" where either is unknown.
func Relative(t, now time.Time) string {
	switch {
	case t.IsZero() || now.IsZero():
		return "-"
	case t.Before(now):
		return Distance(t, now) + " ago"
	}
	return "in " + Distance(now, t)
}

// Distance returns how far a time is before another.
func Distance(from, to time.Time) string {
	if years, days := record.Apart(from, to); years > 0 {
		return fmt.Sprintf("%dy%dd", years, days)
	}
	return Rough(to.Sub(from))
}

// Rough returns a duration in at most two of its units.
func Rough(d time.Duration) string {
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

// Lateness formats a lateness: below 10 s in milliseconds.
func Lateness(d time.Duration) string {
	if d >= 10*time.Second {
		return Rough(d)
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
