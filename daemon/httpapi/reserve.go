package httpapi

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
)

const (
	reserveFirst = 1 << 20  // bytes of a body above which its memory is reserved before any of it is read
	longAnswer   = 16 << 20 // bytes that are reserved for an answer until its length is known
	elementBytes = 1 << 10  // bytes that an element of a list takes beside its texts, with what is answered of it
)

// reserve waits until the call has reserved so many bytes in all, which it keeps until
// it is answered. Errors: guard.ErrBusy, errDraining, or that of a client that went away.
func (c *call) reserve(bytes int64) error {
	if c.reserveAtOnce(bytes) == nil {
		return nil
	}
	ctx, done := c.untilBusy()
	defer done()
	defer guard.OnSlot(c.r.Context(), (*guard.Slot).Refresh) // the client was not slow meanwhile
	return c.grant.Memory.Reserve(ctx, &c.reserved, bytes)
}

// reserveList is reserve for what a list becomes, beside the body that it is read from.
func (c *call) reserveList(bytes int64) error {
	ctx, done := c.untilBusy()
	defer done()
	return c.grant.Memory.ReserveList(ctx, &c.reserved, bytes)
}

// untilBusy returns a context for as long as a call waits for memory.
func (c *call) untilBusy() (ctx context.Context, done func()) {
	open, closed := c.open(c.r.Context())
	ctx, cancel := context.WithTimeoutCause(open, c.gate.timing.memory, guard.ErrBusy)
	return ctx, func() {
		cancel()
		closed()
	}
}

// reserveAtOnce is reserve without a wait, for bytes in memory already: a wait would let more pile up.
func (c *call) reserveAtOnce(bytes int64) error {
	if c.grant.Memory.Try(&c.reserved, bytes) {
		return nil
	}
	return guard.ErrBusy
}

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
