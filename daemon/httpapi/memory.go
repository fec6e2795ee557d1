package httpapi

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// What the calls and streams of one token may hold in memory at a time, of bodies,
// until a slow client has sent them or taken them. Each token has its own, so that
// no client can use up that of another, and what is small has its own, so that
// what is large cannot keep it out. The collector lets the heap become twice what
// is held.
const (
	memoryOfToken = 64 << 20
	memoryOfSmall = 16 << 20
	small         = 64 << 10 // bytes that a call may hold and be small
	reserveFirst  = 1 << 20  // bytes of a body from which on there must be room before any of it is read
	longAnswer    = 16 << 20 // bytes that an answer may be held as until it is known how long it is
)

// A memory is what a token holds.
type memory struct {
	small, large *semaphore.Weighted
	waiting      atomic.Int64 // bytes of broadcasts that wait for room

	mu   sync.Mutex
	sent map[*byte]*sent // by their first byte
}

func newMemory() *memory {
	return &memory{
		small: semaphore.NewWeighted(memoryOfSmall), large: semaphore.NewWeighted(memoryOfToken),
		sent: make(map[*byte]*sent),
	}
}

// reservation is what a call holds of it.
type reservation struct{ small, large int64 }

// quota returns what a call is to take so many bytes from, to hold as many in all.
func (c *call) quota(bytes int64) (from *semaphore.Weighted, holds *int64, more int64) {
	if bytes <= small {
		return c.grant.memory.small, &c.reserved.small, max(bytes-c.reserved.small-c.reserved.large, 0)
	}
	return c.grant.memory.large, &c.reserved.large, max(min(bytes, memoryOfToken)-c.reserved.large, 0)
}

// reserve waits until the call may hold so many bytes in all, which it does until
// it is answered. Errors: errBusy, errDraining, or that of a client that went away.
func (c *call) reserve(bytes int64) error {
	if c.tryReserve(bytes) {
		return nil
	}
	from, holds, more := c.quota(bytes)
	open, done := c.open(c.r.Context())
	defer done()
	ctx, cancel := context.WithTimeoutCause(open, c.gate.timing.header, errBusy)
	defer cancel()
	if err := from.Acquire(ctx, more); err != nil {
		return context.Cause(ctx)
	}
	*holds += more
	return nil
}

// tryReserve is reserve without waiting, for what is in memory already: others would be while it waits.
func (c *call) tryReserve(bytes int64) bool {
	from, holds, more := c.quota(bytes)
	if more > 0 && !from.TryAcquire(more) {
		return false
	}
	*holds += more
	return true
}

// keepReserved gives back what the call holds beyond so many bytes.
func (c *call) keepReserved(bytes int64) {
	if more := c.reserved.large - bytes; more > 0 {
		c.grant.memory.large.Release(more)
		c.reserved.large -= more
	}
}

// releaseMemory gives back what the call holds.
func (c *call) releaseMemory() {
	c.grant.memory.small.Release(c.reserved.small)
	c.grant.memory.large.Release(c.reserved.large)
}

// A sent body is one that streams of a token send. What it takes is held once for all of them.
type sent struct {
	streams  int
	reserved chan struct{} // closed when it is held,
	err      error         // or why it is not
}

// share is hold for a body that other streams of the token may send, too, until
// all of them have called free.
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

// sentBy takes note that a stream has sent a body. After the last one nobody holds it.
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

// await waits for room for a body. It is in memory already, so that not more of
// that waits than may be held.
func (g *Gate) await(m *memory, bytes int64) error {
	if m.large.TryAcquire(bytes) {
		return nil
	}
	defer m.waiting.Add(-bytes)
	if m.waiting.Add(bytes) > memoryOfToken {
		return errBusy
	}
	ctx, cancel := context.WithTimeoutCause(g.closing, g.timing.header, errBusy)
	defer cancel()
	if m.large.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	return nil
}
