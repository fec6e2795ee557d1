package subscribers

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

func init() { departFor = 30 * time.Second }

// ListenerBound is how long the loop of a listener takes at most to come around.
const ListenerBound = listenerBound

// MostPending is how many hand-overs a claimer holds at the most.
const MostPending = mostPending

// ErrUnsubscribed is the error of a Claimer whose subscription to a shard is down.
var ErrUnsubscribed = errUnsubscribed

// Until returns the end of the lease, unless it was extended.
func (r Receipt) Until() time.Time { return r.until() }

// Bound returns the longest wait after an attempt.
func (o ListenOptions) Bound(attempt int) time.Duration { return o.jitter().bound(attempt) }

// Delay returns a random wait after an attempt.
func (o ListenOptions) Delay(attempt int) time.Duration { return o.jitter().delay(attempt) }

// TakeOver gives a hand-over to a claimer, as its inbox does.
func (c *Claimer) TakeOver(h store.Handover) { c.waiters.takeOver(h) }

// Pending returns how many hand-overs a claimer holds that are neither dealt nor released.
func (c *Claimer) Pending() int {
	c.waiters.mu.Lock()
	defer c.waiters.mu.Unlock()
	return c.waiters.pending
}
