package subscribers

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// A jitter is how long a named listener waits before an attempt is made again:
// exponential, with full jitter (M. Brooker, "Exponential Backoff and Jitter", AWS
// Architecture Blog, 2015).
type jitter struct{ least, most time.Duration }

// jitter returns that of the options of a named listener.
func (o *ListenOptions) jitter() jitter {
	least := cmp.Or(o.BackoffMin, store.DefaultBackoffMin)
	return jitter{least, cmp.Or(o.BackoffMax, max(store.DefaultBackoffMax, least))}
}

// bound returns the longest wait after an attempt, counted from 1: the least, doubled
// for each attempt before it, and at most the most.
func (j jitter) bound(attempt int) time.Duration {
	longest := j.least
	for ; attempt > 1; attempt-- {
		if longest > j.most/2 {
			return j.most
		}
		longest *= 2
	}
	return min(longest, j.most)
}

// delay returns a random wait of less than bound.
func (j jitter) delay(attempt int) time.Duration { return rand.N(j.bound(attempt)) }
