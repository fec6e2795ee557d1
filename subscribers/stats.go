package subscribers

import (
	"sync/atomic"
	"time"
)

// ListenerStats counts what a Listener did since it was made.
type ListenerStats struct {
	Handled    int64 // broadcasts that handlers were called for; each attempt counts
	Lagged     int64 // times that a slow listener began to read from Redis by itself what others had read long before
	Gaps       int64 // gaps that were reported
	Unreadable int64 // foreign entries of logs that were skipped
	GivenUp    int64 // broadcasts that named listeners gave up after their last attempt

	Progress time.Time // when its loop last completed a round; zero: the loop does not run
}

// SubscriberStats counts what a Subscriber did since it was made.
type SubscriberStats struct {
	HandedOver int64 // messages that came with the ring
	Dropped    int64 // of these, unreadable, for no topic of its own, a second time, or too late: they come again
}

// handovers are the counters of SubscriberStats.
type handovers struct{ all, dropped atomic.Int64 }

// drop counts some that came and are dropped.
func (h *handovers) drop(n int64) {
	h.all.Add(n)
	h.dropped.Add(n)
}

func (h *handovers) stats() SubscriberStats {
	return SubscriberStats{HandedOver: h.all.Load(), Dropped: h.dropped.Load()}
}

type counters struct{ handled, lagged, gaps, unreadable, givenUp atomic.Int64 }

func (c *counters) stats() ListenerStats {
	return ListenerStats{
		Handled: c.handled.Load(), Lagged: c.lagged.Load(), Gaps: c.gaps.Load(),
		Unreadable: c.unreadable.Load(), GivenUp: c.givenUp.Load(),
	}
}
