package store

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// backgroundTimeout is how long a task in the background may take.
	backgroundTimeout = dialTimeout + callTimeout

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
		ctx, cancel := context.WithTimeout(b.ctx, backgroundTimeout)
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

// ensureFit checks a Redis that was not checked yet, once for all callers at a time.
// While a right is missing it returns an error, and nothing is sent.
func (d *shard) ensureFit(ctx context.Context) error {
	isFit := func() bool { return d.fit.Load() != fitUnknown }
	if isFit() {
		return nil
	}
	return d.shared(ctx, &d.check, isFit, d.checkServer)
}

// shared makes a check, unless it is done, and waits for its end. Callers share the one
// that runs.
func (d *shard) shared(ctx context.Context, last **fitCheck, isDone func() bool, run func(context.Context) error) error {
	check := d.startCheck(last, isDone, run)
	if check == nil {
		return nil
	}
	select {
	case <-check.done:
		return check.err
	case <-ctx.Done():
		return d.explain(ctx, ctx.Err())
	}
}

// startCheck returns the check that holds for its caller, or starts one. It returns
// nil if it is done.
func (d *shard) startCheck(last **fitCheck, isDone func() bool, run func(context.Context) error) *fitCheck {
	b := &d.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if isDone() {
		return nil
	}
	if *last != nil && (*last).holds() {
		return *last
	}
	check := &fitCheck{done: make(chan struct{}), err: &ServerError{Where: d.place(), Err: redis.ErrClosed, shard: d}}
	if b.ctx.Err() != nil {
		close(check.done)
		return check
	}
	*last = check
	b.run(func(ctx context.Context) {
		defer close(check.done)
		if err := run(ctx); b.ctx.Err() == nil {
			check.err = err
		}
		check.ended = time.Now()
	})
	return check
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

// prepare sets up a connection for later calls. go-redis dials in the background, but
// sets a connection up within the deadline of the call that uses it first: if no call
// has enough time for that, none would ever get through.
func (d *shard) prepare() {
	b := &d.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.preparing || time.Now().Before(b.prepareFrom) || d.fit.Load() == fitUnknown || b.ctx.Err() != nil { // a check sets one up, too
		return
	}
	b.preparing = true
	b.run(func(ctx context.Context) {
		wasSetUp := false
		ctx = context.WithValue(ctx, noteSetUp{}, &wasSetUp)
		_, err := onNode(ctx, d, func(node redis.UniversalClient) (time.Time, error) { return node.Time(ctx).Result() })
		b.mu.Lock()
		defer b.mu.Unlock()
		b.preparing = false
		if err != nil || !wasSetUp { // it would only keep a connection from others
			b.prepareFrom = time.Now().Add(prepareAgain)
		}
	})
}

// noteSetUp is the key of a *bool in the context of a call, which becomes true when
// a connection is set up for it.
type noteSetUp struct{}
