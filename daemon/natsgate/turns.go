package natsgate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/daemon/api"
)

const (
	requestTimeout = 10 * time.Second // for one request

	maxConcurrent = 256      // slots: requests that are handled at the same time
	slotBytes     = 64 << 10 // bytes of a request for each slot that it takes
	maxWaits      = 10_000   // requests that wait at a time, for messages or for the end of one

	// maxClaims is how many claims run at the same time. Each may hold the 4 MiB of bodies of one reply
	// of Redis twice, until NATS has taken them.
	maxClaims = 8

	// maxSearches and maxReads are how many pages of messages and inspections are answered at the same time. A page may
	// hold max_payload a few times, and JSON has up to six bytes for one of a body.
	maxSearches, maxReads = 4, 8

	// maxLists is how many lists are read at the same time: each becomes some 20 MiB.
	maxLists = 2
)

// turns bound how many requests of a kind hold bodies at a time, until NATS has taken them. Nil ones bound nothing.
type turns chan struct{}

// take waits for a turn, which lasts until end. It waits no longer than a request may take. The error is that of its context.
func (t turns) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if t.try() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d such requests are under way, and it waited too long; send it again: %w", cap(t), ctx.Err())
	}
}

// try takes a turn if there is one, and reports whether there was.
func (t turns) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turns) end() {
	if t != nil {
		<-t
	}
}

// slots limit the requests that are handled at a time. A request takes one, and one more for every slotBytes bytes.
type slots struct {
	free  *semaphore.Weighted
	open  context.Context // ends with end: no more requests are handled
	close context.CancelFunc
}

func newSlots() slots {
	s := slots{free: semaphore.NewWeighted(maxConcurrent)}
	s.open, s.close = context.WithCancel(context.Background())
	return s
}

// run runs f, for a request of so many bytes, in a goroutine as soon as its slots are free. It reports false, and f does not run,
// after end.
func (s slots) run(bytes int, f func()) bool {
	n := min(1+int64(bytes/slotBytes), maxConcurrent)
	if s.free.Acquire(s.open, n) != nil {
		return false
	}
	go func() {
		defer s.free.Release(n)
		f()
	}()
	return true
}

// wait waits until all slots are free, or ctx ends.
func (s slots) wait(ctx context.Context) {
	if s.free.Acquire(ctx, maxConcurrent) == nil {
		s.free.Release(maxConcurrent)
	}
}

// end refuses further requests, and waits until all slots are free.
func (s slots) end() {
	s.close()
	_ = s.free.Acquire(context.Background(), maxConcurrent) // never fails: the context has no end
}

// waits are the requests that wait: beside the slots, which others need meanwhile.
type waits struct {
	count *atomic.Int64 // of them
	free  *semaphore.Weighted
	open  context.Context // ends with end: all are answered
	close context.CancelFunc
}

func newWaits() waits {
	w := waits{count: new(atomic.Int64), free: semaphore.NewWeighted(maxWaits)}
	w.open, w.close = context.WithCancel(context.Background())
	return w
}

// start calls f in a goroutine, with a context that ends when the gateway stops. The error is an api.ErrBusy.
func (w waits) start(f func(context.Context)) error {
	if !w.free.TryAcquire(1) {
		return fmt.Errorf("%w: %d requests wait already; send it again", api.ErrBusy, maxWaits)
	}
	w.count.Add(1)
	go func() {
		defer w.free.Release(1)
		defer w.count.Add(-1)
		f(w.open)
	}()
	return nil
}

// end answers all that wait, and waits until that is done, or ctx ends. Later ones are
// answered at once.
func (w waits) end(ctx context.Context) {
	w.close()
	if w.free.Acquire(ctx, maxWaits) == nil {
		w.free.Release(maxWaits)
	}
}
