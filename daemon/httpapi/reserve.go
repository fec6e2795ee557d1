package httpapi

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
)

const (
	reserveFirst = 1 << 20  // bytes of a body above which its memory is reserved before any of it is read
	longAnswer   = 16 << 20 // bytes that are reserved for an answer until its length is known
)

// reserve waits until the call has reserved so many bytes in all, which it keeps until
// it is answered. Errors: guard.ErrBusy, errDraining, or that of a client that went away.
func (c *call) reserve(bytes int64) error {
	if c.tryReserve(bytes) {
		return nil
	}
	open, done := c.open(c.r.Context())
	defer done()
	ctx, cancel := context.WithTimeoutCause(open, c.gate.timing.memory, guard.ErrBusy)
	defer cancel()
	return c.grant.Memory.Reserve(ctx, &c.reserved, bytes)
}

// reserveAtOnce is reserve without a wait.
func (c *call) reserveAtOnce(bytes int64) error {
	if c.tryReserve(bytes) {
		return nil
	}
	return guard.ErrBusy
}

// tryReserve is reserve without waiting, for bytes in memory already: a wait would let more pile up.
func (c *call) tryReserve(bytes int64) bool { return c.grant.Memory.Try(&c.reserved, bytes) }

// keepReserved releases what the call has reserved beyond so many bytes.
func (c *call) keepReserved(bytes int64) { c.grant.Memory.Keep(&c.reserved, bytes) }

// releaseMemory releases all that the call has reserved.
func (c *call) releaseMemory() { c.grant.Memory.Release(&c.reserved) }

// share is reserve for a body that other streams of the token may also send, until all
// of them have called free.
func (c *call) share(body []byte) (free func(), err error) {
	ctx, cancel := context.WithTimeoutCause(c.gate.closing, c.gate.timing.memory, guard.ErrBusy)
	defer cancel()
	return c.grant.Memory.Share(ctx, body)
}
