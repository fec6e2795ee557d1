package subscribers

import (
	"math/rand/v2"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Backoff is how long a named listener waits before an attempt is made again:
// exponential, with full jitter (M. Brooker, "Exponential Backoff and Jitter", AWS
// Architecture Blog, 2015).
type Backoff struct {
	Min time.Duration // bound after the first attempt; zero: 1s
	Max time.Duration // bound after many; zero: 10m
}

// bound returns the longest wait after an attempt, counted from 1: Min, doubled
// for each attempt before it, and at most Max.
func (b Backoff) bound(attempt int) time.Duration {
	b = b.orDefault()
	longest := b.Min
	for ; attempt > 1; attempt-- {
		if longest > b.Max/2 {
			return b.Max
		}
		longest *= 2
	}
	return min(longest, b.Max)
}

// delay returns a random wait of less than bound.
func (b Backoff) delay(attempt int) time.Duration { return rand.N(b.bound(attempt)) }

func (b Backoff) orDefault() Backoff {
	if b.Min == 0 {
		b.Min = store.DefaultBackoffMin
	}
	if b.Max == 0 {
		b.Max = max(store.DefaultBackoffMax, b.Min)
	}
	return b
}

// check reports a backoff that is too short, or upside down. A zero is the default.
func (b Backoff) check() error {
	b = b.orDefault()
	switch {
	case b.Min < time.Millisecond:
		return fault.New("backoff_min", "backoff_min %v: the shortest is 1ms", b.Min)
	case b.Max < b.Min:
		return fault.New("backoff_max", "backoff_max %v: it is less than backoff_min, %v", fault.Short(b.Max), fault.Short(b.Min))
	}
	return nil
}
