package snapshots

import (
	"time"

	"github.com/bellhopd/bellhop/daemon/console/river"
)

// Wake returns what is known of the 61 minutes until a time of a topic that was counted at some times.
func Wake(at []time.Time, acked []int64, until time.Time) (minutes []*int64) {
	k := countsKept{wakes: make(wakes)}
	for i := range at {
		k.wakes.add("t", acked[i], at[i])
	}
	bars := river.Spans[0].Bars(until.Truncate(time.Minute).Add(-time.Hour))
	k.Seen([]string{"t", "other"}, bars)
	for _, b := range bars {
		minutes = append(minutes, b.Past)
	}
	return minutes
}
