package reach

import (
	"context"
	"sync"
	"time"
)

const (
	// recheckAfter is the shortest time between two checks for rights that are missing.
	recheckAfter = 100 * time.Millisecond

	// prepareAgain is the time to the next preparation after one that was in vain.
	prepareAgain = time.Second
)

// A background runs what the callers of a store share, and what must not fail by the
// deadline of one of them.
type background struct {
	ctx context.Context // of all tasks
	end context.CancelFunc

	mu    sync.Mutex
	tasks sync.WaitGroup

	preparing   bool      // a connection is being prepared
	prepareFrom time.Time // none is prepared earlier
}

// A fitCheck is a check of Redis, or what else all callers of a store wait for.
type fitCheck struct {
	done  chan struct{} // closed when it has ended,
	err   error         // with this,
	ended time.Time     // at this time
}

// run runs a task. The mutex is held, and the background is not closed.
func (b *background) run(task func(context.Context)) {
	b.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, BackgroundWait)
		defer cancel()
		task(ctx)
	})
}

// close ends all tasks, and lets none begin.
func (b *background) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
}

// holds reports whether a check still runs, or has just found that a right is missing.
func (c *fitCheck) holds() bool {
	select {
	case <-c.done:
		return Refused(c.err) && time.Since(c.ended) < recheckAfter
	default:
		return true
	}
}
