package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// How many bytes of bodies the calls and streams of one token may keep in memory at a
// time, until slow clients have sent or received them. Each token has its own memory,
// so that no client can use up another's. Small bodies have their own, so that large
// ones cannot keep them out, and so has what lists become that are read: a body that
// waits for that keeps no other from it. The garbage collector lets the heap grow to
// twice this.
const (
	MemoryOfToken = 64 << 20
	MemoryOfSmall = 16 << 20
	MemoryOfLists = 32 << 20
	Small         = 64 << 10 // bytes up to which a call counts as small
)

// ErrBusy is why a call of a token gets no memory.
var ErrBusy = errors.New("the token has too many large requests under way; send the request again")

// A Memory is the memory of a token.
type Memory struct {
	small, large, lists *semaphore.Weighted
	waiting             atomic.Int64 // bytes of broadcasts that wait for a reservation

	mu   sync.Mutex
	sent map[*byte]*sent // by the address of their first byte
}

// NewMemory returns the memory of one token, of which nothing is reserved.
func NewMemory() *Memory {
	return &Memory{
		small: semaphore.NewWeighted(MemoryOfSmall), large: semaphore.NewWeighted(MemoryOfToken),
		lists: semaphore.NewWeighted(MemoryOfLists), sent: make(map[*byte]*sent),
	}
}

// A Reservation is the bytes that a call has reserved.
type Reservation struct{ small, large, lists int64 }

// quota returns the semaphore for a call of so many bytes in all, the call's counter for
// it, and how many bytes are still to reserve.
func (m *Memory) quota(r *Reservation, bytes int64) (from *semaphore.Weighted, reserved *int64, more int64) {
	if bytes <= Small {
		return m.small, &r.small, max(bytes-r.small-r.large, 0)
	}
	return m.large, &r.large, max(min(bytes, MemoryOfToken)-r.large, 0)
}

// Try reserves so many bytes in all, if they are free.
func (m *Memory) Try(r *Reservation, bytes int64) bool {
	from, reserved, more := m.quota(r, bytes)
	if more > 0 && !from.TryAcquire(more) {
		return false
	}
	*reserved += more
	return true
}

// Reserve is Try, and waits until they are free. The error is the cause of ctx.
func (m *Memory) Reserve(ctx context.Context, r *Reservation, bytes int64) error {
	from, reserved, more := m.quota(r, bytes)
	if err := from.Acquire(ctx, more); err != nil {
		return context.Cause(ctx)
	}
	*reserved += more
	return nil
}

// ReserveList waits until so many bytes are free for what a list becomes, of which a call has one. One that becomes more than there is takes
// all. The error is the cause of ctx.
func (m *Memory) ReserveList(ctx context.Context, r *Reservation, bytes int64) error {
	bytes = min(bytes, MemoryOfLists)
	if err := m.lists.Acquire(ctx, bytes); err != nil {
		return context.Cause(ctx)
	}
	r.lists = bytes
	return nil
}

// Keep releases what is reserved beyond so many bytes.
func (m *Memory) Keep(r *Reservation, bytes int64) {
	if more := r.large - bytes; more > 0 {
		m.large.Release(more)
		r.large -= more
	}
}

// Release releases all that is reserved.
func (m *Memory) Release(r *Reservation) {
	m.small.Release(r.small)
	m.large.Release(r.large)
	m.lists.Release(r.lists)
}

// A sent is a body that streams of a token are sending. Its memory is reserved once for all of them.
type sent struct {
	streams  int
	reserved chan struct{} // closed when its memory is reserved,
	err      error         // or cannot be, because of err
}

// Share reserves the bytes of a body that other streams of the token may also send, until all
// of them have called free: it waits until they are free. Errors: an ErrBusy, or the cause of
// the ctx of the stream that began to wait first.
func (m *Memory) Share(ctx context.Context, body []byte) (free func(), err error) {
	bytes := min(int64(len(body)), MemoryOfToken)
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
		one.err = m.await(ctx, bytes)
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
func (m *Memory) sentBy(one *sent, body *byte, bytes int64) {
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
func (m *Memory) await(ctx context.Context, bytes int64) error {
	if m.large.TryAcquire(bytes) {
		return nil
	}
	defer m.waiting.Add(-bytes)
	if m.waiting.Add(bytes) > MemoryOfToken {
		return ErrBusy
	}
	if m.large.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	return nil
}
