package httpapi

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// How many bytes of bodies the calls and streams of one token may keep in memory at a
// time, until slow clients have sent or received them. Each token has its own memory,
// so that no client can use up another's. Small bodies have their own, so that large
// ones cannot keep them out. The garbage collector lets the heap grow to twice this.
const (
	memoryOfToken = 64 << 20
	memoryOfSmall = 16 << 20
	small         = 64 << 10 // bytes up to which a call counts as small
	reserveFirst  = 1 << 20  // bytes of a body above which its memory is reserved before any of it is read
	longAnswer    = 16 << 20 // bytes that are reserved for an answer until its length is known
)

// A memory is the memory of a token.
type memory struct {
	small, large *semaphore.Weighted
	waiting      atomic.Int64 // bytes of broadcasts that wait for a reservation

	mu   sync.Mutex
	sent map[*byte]*sent // by the address of their first byte
}

func newMemory() *memory {
	return &memory{
		small: semaphore.NewWeighted(memoryOfSmall), large: semaphore.NewWeighted(memoryOfToken),
		sent: make(map[*byte]*sent),
	}
}

// A reservation is the bytes that a call has reserved.
type reservation struct{ small, large int64 }

// quota returns the semaphore for a call of so many bytes in all, the call's counter for
// it, and how many bytes are still to reserve.
func (c *call) quota(bytes int64) (from *semaphore.Weighted, reserved *int64, more int64) {
	if bytes <= small {
		return c.grant.memory.small, &c.reserved.small, max(bytes-c.reserved.small-c.reserved.large, 0)
	}
	return c.grant.memory.large, &c.reserved.large, max(min(bytes, memoryOfToken)-c.reserved.large, 0)
}

// reserve waits until the call has reserved so many bytes in all, which it keeps until
// it is answered. Errors: errBusy, errDraining, or that of a client that went away.
func (c *call) reserve(bytes int64) error {
	if c.tryReserve(bytes) {
		return nil
	}
	from, reserved, more := c.quota(bytes)
	open, done := c.open(c.r.Context())
	defer done()
	ctx, cancel := context.WithTimeoutCause(open, c.gate.timing.memory, errBusy)
	defer cancel()
	if err := from.Acquire(ctx, more); err != nil {
		return context.Cause(ctx)
	}
	*reserved += more
	return nil
}

// reserveAtOnce is reserve without a wait.
func (c *call) reserveAtOnce(bytes int64) error {
	if c.tryReserve(bytes) {
		return nil
	}
	return errBusy
}

// tryReserve is reserve without waiting, for bytes in memory already: a wait would let more pile up.
func (c *call) tryReserve(bytes int64) bool {
	from, reserved, more := c.quota(bytes)
	if more > 0 && !from.TryAcquire(more) {
		return false
	}
	*reserved += more
	return true
}

// keepReserved releases what the call has reserved beyond so many bytes.
func (c *call) keepReserved(bytes int64) {
	if more := c.reserved.large - bytes; more > 0 {
		c.grant.memory.large.Release(more)
		c.reserved.large -= more
	}
}

// releaseMemory releases all that the call has reserved.
func (c *call) releaseMemory() {
	c.grant.memory.small.Release(c.reserved.small)
	c.grant.memory.large.Release(c.reserved.large)
}

// A sent is a body that streams of a token are sending. Its memory is reserved once for all of them.
type sent struct {
	streams  int
	reserved chan struct{} // closed when its memory is reserved,
	err      error         // or cannot be, because of err
}

// share is reserve for a body that other streams of the token may also send, until all
// of them have called free.
func (c *call) share(body []byte) (free func(), err error) {
	m, bytes := c.grant.memory, min(int64(len(body)), memoryOfToken)
	m.mu.Lock()
	one := m.sent[&body[0]]
	first := one == nil
	if first {
		one = &sent{reserved: make(chan struct{})}
		m.sent[&body[0]] = one
	}
	one.streams++
	m.mu.Unlock()
	if first {
		one.err = c.gate.await(m, bytes)
		close(one.reserved)
	}
	<-one.reserved
	free = func() { m.sentBy(one, &body[0], bytes) }
	if one.err != nil {
		free()
		return nil, one.err
	}
	return free, nil
}

// sentBy notes that a stream has sent a body. After the last one its memory is released.
func (m *memory) sentBy(one *sent, body *byte, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one.streams--; one.streams > 0 {
		return
	}
	delete(m.sent, body)
	if one.err == nil {
		m.large.Release(bytes)
	}
}

// await waits for memory for a body. The body is in memory already, so at most as many
// bytes may wait as may be reserved.
func (g *Gate) await(m *memory, bytes int64) error {
	if m.large.TryAcquire(bytes) {
		return nil
	}
	defer m.waiting.Add(-bytes)
	if m.waiting.Add(bytes) > memoryOfToken {
		return errBusy
	}
	ctx, cancel := context.WithTimeoutCause(g.closing, g.timing.memory, errBusy)
	defer cancel()
	if m.large.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	return nil
}
