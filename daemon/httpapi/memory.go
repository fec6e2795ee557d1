package httpapi

import (
	"context"

	"github.com/bellhopd/bellhop/subscribers"
)

// What the calls of one token may hold in memory at a time, of bodies and
// answers, until a slow client has sent the one or taken the other. Each token has
// its own, so that no client can use up that of another.
const (
	memoryOfToken = 128 << 20
	uncounted     = 64 << 10 // bytes that a call may hold without being counted
	largeBody     = 1 << 20  // bytes of a body from which on there must be room before any of it is read
	longAnswer    = 16 << 20 // what an answer is counted as that may be long
)

// hold waits until the call may hold so many bytes in all, which it does until
// it is answered. Errors: errBusy, errDraining, or that of a client that went away.
func (c *call) hold(bytes int64) error {
	more := min(bytes, memoryOfToken) - c.held
	if bytes <= uncounted || more <= 0 {
		return nil
	}
	open, done := c.open(c.r.Context())
	defer done()
	ctx, cancel := context.WithTimeoutCause(open, c.gate.timing.header, errBusy)
	defer cancel()
	if err := c.grant.memory.Acquire(ctx, more); err != nil {
		return context.Cause(ctx)
	}
	c.held += more
	return nil
}

// holdAnswer is hold for messages that were claimed. They are held already, and
// others would be while it waits, so it does not.
func (c *call) holdAnswer(ds []subscribers.Delivery) error {
	bytes := int64(0)
	for i := range ds {
		bytes += 2 * int64(len(ds[i].Body)) // as it is, and in the answer
	}
	more := min(bytes, memoryOfToken) - c.held
	if bytes <= uncounted || more <= 0 {
		return nil
	}
	if !c.grant.memory.TryAcquire(more) {
		return errBusy
	}
	c.held += more
	return nil
}

// letGo gives back what the call holds.
func (c *call) letGo() { c.grant.memory.Release(c.held) }
