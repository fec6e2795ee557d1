package snapshots_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/console/snapshots"
)

// The past of a topic is what was acknowledged while somebody looked.
func TestWake(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, noon.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	for name, c := range map[string]struct {
		at    []time.Time
		acked []int64
		want  map[int]int64 // by minutes before noon
	}{
		"one look says nothing":         {at(-30), []int64{5}, nil},
		"each second":                   {at(-62, -61, -60, -59), []int64{5, 7, 10, 10}, map[int]int64{2: 2, 1: 3}},
		"nothing came":                  {at(-62, -61), []int64{5, 5}, map[int]int64{2: 0}},
		"nobody looked in between":      {at(-200, -199, -61, -60), []int64{5, 6, 100, 101}, map[int]int64{4: 1, 1: 1}},
		"the topic was forgotten":       {at(-3, -2, -1), []int64{5, 0, 2}, map[int]int64{1: 2}},
		"the clock was set back":        {at(-3, 5, 4), []int64{5, 6, 9}, map[int]int64{0: 1}},
		"longer than is kept":           {at(-3602, -3601, -2, -1), []int64{1, 2, 3, 4}, map[int]int64{1: 1}},
		"a clock that is ahead of it":   {at(100, 101), []int64{1, 3}, map[int]int64{0: 2}},
		"another hour takes its place":  {at(-3661, -3660, -1, 0), []int64{1, 2, 3, 4}, map[int]int64{0: 1}},
		"the oldest minute is kept yet": {at(-3600, -3599), []int64{1, 2}, map[int]int64{60: 1}},
	} {
		got := make(map[int]int64)
		for i, n := range snapshots.Wake(c.at, c.acked, noon.Add(30*time.Second)) {
			if n != nil {
				got[60-i] = *n
			}
		}
		if len(got)+len(c.want) > 0 && !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
