package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// rough returns a duration in whole seconds, minutes, hours or days, such as 22m.
func rough(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// short returns a duration as millis does, but from a second on as rough does.
func short(d time.Duration) string {
	if d < time.Second {
		return millis(d)
	}
	return rough(d.Round(time.Second))
}

// ahead says how far a clock is ahead of another.
func ahead(d time.Duration) string {
	if d < 0 {
		return short(-d) + " behind"
	}
	return short(d) + " ahead of"
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// plural returns a number and a noun, with an s unless the number is one.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// numbers names shards, such as shards 0, 3.
func numbers(shards []store.Shard) string {
	var all []string
	for _, s := range shards {
		all = append(all, fmt.Sprint(s.Number()))
	}
	if len(all) == 1 {
		return "shard " + all[0]
	}
	return "shards " + strings.Join(all, ", ")
}
