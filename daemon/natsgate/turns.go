package natsgate

import (
	"context"
	"fmt"
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

// places bound how many requests are under way at a time.
type places struct {
	most  int64
	free  *semaphore.Weighted
	open  context.Context // ends with close: what is under way ends soon, and nothing waits for a place
	close context.CancelFunc
}

func newPlaces(most int64) places {
	p := places{most: most, free: semaphore.NewWeighted(most)}
	p.open, p.close = context.WithCancel(context.Background())
	return p
}

// run runs f in a goroutine, in n places that were taken for it.
func (p places) run(n int64, f func()) {
	go func() {
		defer p.free.Release(n)
		f()
	}()
}

// wait waits until all places are free, or ctx ends.
func (p places) wait(ctx context.Context) {
	if p.free.Acquire(ctx, p.most) == nil {
		p.free.Release(p.most)
	}
}

// inSlots runs f, for a request of so many bytes, in a goroutine as soon as its slots are free: one, and one more for every slotBytes
// bytes. It reports false, and f does not run, when the slots are closed.
func (g *Gate) inSlots(bytes int, f func()) bool {
	n := min(1+int64(bytes/slotBytes), maxConcurrent)
	if g.slots.free.Acquire(g.slots.open, n) != nil {
		return false
	}
	g.slots.run(n, f)
	return true
}

// wait calls f in a goroutine beside the slots, which others need meanwhile, with a context that ends when the gateway stops. The
// error is an api.ErrBusy.
func (g *Gate) wait(f func(context.Context)) error {
	if !g.waits.free.TryAcquire(1) {
		return fmt.Errorf("%w: %d requests wait already; send it again", api.ErrBusy, maxWaits)
	}
	g.waiting.Add(1)
	g.waits.run(1, func() {
		defer g.waiting.Add(-1)
		f(g.waits.open)
	})
	return nil
}
