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
	check *fitCheck // the last one; nil before the first

	preparing   bool      // a connection is being prepared
	prepareFrom time.Time // none is prepared earlier
}

// A fitCheck is a check of Redis for all callers that wait for it.
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
func (s *Store) ensureFit(ctx context.Context) error {
	if s.fit.Load() != fitUnknown {
		return nil
	}
	check := s.startCheck()
	if check == nil {
		return nil
	}
	select {
	case <-check.done:
		return check.err
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	}
}

// startCheck returns the check that holds for its caller, or starts one. It returns
// nil if Redis was found fit meanwhile.
func (s *Store) startCheck() *fitCheck {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.fit.Load() != fitUnknown {
		return nil
	}
	if b.check != nil && b.check.holds() {
		return b.check
	}
	check := &fitCheck{done: make(chan struct{}), err: &ServerError{Where: s.where, Err: redis.ErrClosed}}
	if b.ctx.Err() != nil {
		close(check.done)
		return check
	}
	b.check = check
	b.run(func(ctx context.Context) {
		defer close(check.done)
		if err := s.Check(ctx); b.ctx.Err() == nil {
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
func (s *Store) prepare() {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.preparing || time.Now().Before(b.prepareFrom) || s.fit.Load() == fitUnknown || b.ctx.Err() != nil { // a check sets one up, too
		return
	}
	b.preparing = true
	b.run(func(ctx context.Context) {
		wasSetUp := false
		ctx = context.WithValue(ctx, noteSetUp{}, &wasSetUp)
		_, err := onNode(ctx, s, func(node redis.UniversalClient) (time.Time, error) { return node.Time(ctx).Result() })
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
