package subscribers

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	ahead   = 5 * time.Millisecond   // of work that is claimed ahead of the hands
	stalled = 100 * time.Millisecond // after which what was claimed ahead is released
)

// A source is what an engine works on: the messages of a topic, or the
// broadcasts of a named listener.
type source[W any] struct {
	// claim leases up to n pieces of work. Where claims settle, it first
	// acknowledges done, and n may be 0. It is called by one goroutine alone.
	claim func(ctx context.Context, n int, done []W) (batch[W], error)

	// handle handles a piece of work by engine.try. It reports whether that is
	// to be acknowledged; if not, it is given back or lost.
	handle func(grace context.Context, j *job[W], work W) (done bool)

	// ack acknowledges work, and returns what it names whose lease was lost.
	ack func(ctx context.Context, done []W) (lost []W, err error)

	// release gives work back untouched. If rest is set, the source does not ring
	// until the next claim.
	release func(ctx context.Context, back []*job[W], rest bool) error

	// extend gives up to store.MaxClaim pieces of work that were claimed for a lease
	// another one. It returns what notes that in each, and the indexes of those
	// that were lost.
	extend func(ctx context.Context, all []W, lease time.Duration) (renew func(*W), lost []int, err error)

	ends  func(error) bool // reports whether an error of claim ends the engine
	about func(*W) []any   // names a piece of work in the log
	noun  string           // for all of it
}

// A batch is what a claim brought.
type batch[W any] struct {
	work  []W
	lease time.Duration // of each piece
	more  bool          // there may be more now; if not, the source rings when there is
	then  func()        // called when the work is queued; may be nil
}

// terms are on what terms an engine works.
type terms struct {
	concurrency int           // hands
	ahead       int           // pieces of work that are claimed ahead of the hands, at the most
	grace       time.Duration // of handlers, when the engine stops

	// What is held may be settled after its lease has ended, too, until a claim
	// hands it out again. So claims settle: what is done is acknowledged with
	// the next one, before that hands out anything.
	claimsSettle bool
}

// An engine handles work that is leased. Its goroutines: one that claims, one
// that acknowledges, one that extends leases, and up to terms.concurrency hands.
type engine[W any] struct {
	source[W]
	terms
	log *slog.Logger

	rung    chan struct{} // there may be work
	freed   chan struct{} // enough hands came free to claim again
	handled chan struct{} // something is to be acknowledged; where claims settle it is freed
	leased  chan struct{} // every became shorter
	hands   sync.WaitGroup

	// receipts is held for writing while leases are extended, which changes the
	// receipts, and for reading by every call that settles with them.
	receipts sync.RWMutex

	mu     sync.Mutex
	queue  []*job[W]        // claimed, not begun
	held   map[*job[W]]bool // claimed, not settled
	done   []*job[W]        // handled, not acknowledged
	open   int              // queued or being handled
	busy   int              // hands
	stopBy time.Time        // when settling ends; zero while the engine runs
	low    int              // the claiming goroutine waits for freed until fewer are open; 0: it does not
	mean   time.Duration    // of handling a piece of work, a moving average
	barred time.Time        // until when nothing is claimed, after a NotNow
	probe  bool             // one piece of work is claimed at a time, after a NotNow
	bars   int              // how often there was a NotNow
	every  time.Duration    // in which leases are extended: a third of the shortest; 0: nothing was held
}

// A job is a piece of work in hand.
type job[W any] struct {
	work    W // its receipt is guarded by engine.receipts and engine.mu
	queued  time.Time
	sent    time.Time               // before the call that gave the lease; guarded by engine.mu
	lease   time.Duration           // from the claim on, and from each extension; guarded by engine.mu
	lost    bool                    // the lease; guarded by engine.mu
	handled bool                    // and to be acknowledged; guarded by engine.mu
	settled bool                    // by the handler itself; guarded by engine.mu
	tries   int                     // of the handler
	took    time.Duration           // by it; for its hand alone
	cancel  context.CancelCauseFunc // of the handler's context, nil before; guarded by engine.mu
}

func newEngine[W any](s source[W], t terms, rung chan struct{}, log *slog.Logger) *engine[W] {
	e := &engine[W]{source: s, terms: t, log: log, rung: rung, held: make(map[*job[W]]bool)}
	e.freed, e.handled, e.leased = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	if t.claimsSettle {
		e.handled = e.freed
	}
	return e
}

// run handles work until ctx ends, and returns when all is settled. Its error is
// one of claim that ends it.
func (e *engine[W]) run(ctx context.Context) error {
	grace, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer after(ctx, 0, func() { e.stopping(time.Now().Add(e.grace + settleFor)) })()
	defer after(ctx, e.grace, func() { interrupt(ErrStopping) })()
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	var helpers sync.WaitGroup
	helpers.Go(func() { e.keepLeases(settling) })
	acknowledge := func() { e.acknowledge(grace, settling.Done()) }
	if !e.claimsSettle {
		helpers.Go(acknowledge)
	}
	err := e.claimLoop(ctx, grace)
	if err != nil && !errors.Is(err, notify.ErrUnfit) { // then what is in hand is nobody's any more
		e.stopping(time.Now().Add(settleFor))
		interrupt(err)
	}
	if e.claimsSettle {
		signal(e.handled)
		helpers.Go(acknowledge)
	}
	e.leave(grace, 0)
	e.hands.Wait()
	settled()
	helpers.Wait()
	return err
}

// after calls f some time after ctx has ended, unless it is stopped before.
func after(ctx context.Context, d time.Duration, f func()) (stop func()) {
	timer := time.AfterFunc(math.MaxInt64, f)
	unhook := context.AfterFunc(ctx, func() { timer.Reset(d) })
	return func() {
		unhook()
		timer.Stop()
	}
}

// claimLoop claims whenever hands are free and there may be work, until ctx
// ends. What it claimed is handled until grace ends.
func (e *engine[W]) claimLoop(ctx, grace context.Context) error {
	more, rung := false, false // at first the source rings, because its connection stands
	timer := time.NewTimer(stalled)
	defer timer.Stop()
	retry := newRetry(e.log)
	for ctx.Err() == nil {
		if n, bars, settle := e.wanted(); n > 0 && more || settle || e.claimsSettle && rung {
			var err error
			if more, err = e.claimOnce(ctx, grace, n, bars); err != nil && e.ends(err) {
				return err
			}
			rung = rung && err != nil
			retry.Wait(ctx, err)
			continue
		}
		timer.Reset(e.idleFor())
		select {
		case <-ctx.Done():
		case <-e.rung:
			more, rung = true, true
		case <-e.freed:
		case <-timer.C:
			more = e.resume() || more
			more = e.leave(grace, stalled) || more
		}
	}
	return nil
}

// idleFor returns in how long the oldest work in the queue will have been there
// too long, or work is claimed again after a NotNow.
func (e *engine[W]) idleFor() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := time.Hour
	if !e.barred.IsZero() {
		next = time.Until(e.barred)
	}
	if len(e.queue) > 0 {
		next = min(next, time.Until(e.queue[0].queued.Add(stalled)))
	}
	return next
}

// wanted returns how much to claim now: for the free hands, and as much as the
// hands were seen to handle in a moment, so that fast handlers need not wait
// for claims while slow ones take nothing from other processes. It returns how
// many NotNows that takes into account, and whether a claim is to settle something.
func (e *engine[W]) wanted() (n, bars int, settle bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	settle = e.claimsSettle && len(e.done) > 0
	more := 0
	switch {
	case time.Now().Before(e.barred):
		return 0, e.bars, settle
	case e.probe && e.open == 0:
		return 1, e.bars, settle
	case e.probe:
		e.low = 1
		return 0, e.bars, settle
	case e.mean > 0:
		more = min(int(time.Duration(e.concurrency)*ahead/e.mean), e.ahead)
	}
	if low := e.concurrency + (more+1)/2; e.open >= low {
		e.low = low
		return 0, e.bars, settle
	}
	return min(e.concurrency+more-e.open, store.MaxClaim), e.bars, settle
}

// claimOnce claims up to n pieces of work and queues them, if there were so many
// NotNows. It reports whether there may be more now.
func (e *engine[W]) claimOnce(ctx, grace context.Context, n, bars int) (more bool, err error) {
	var js []*job[W]
	e.mu.Lock()
	if e.claimsSettle {
		n := min(len(e.done), store.MaxClaim)
		js, e.done = e.done[:n:n], e.done[n:]
	}
	done := works(js)
	e.mu.Unlock()
	sent := time.Now()
	got, err := e.claim(ctx, n, done)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.done = append(js, e.done...)
		return true, err
	}
	e.drop(js)
	switch back, barred := e.enqueue(grace, sent, bars, got); {
	case len(back) > 0:
		e.giveBack(grace, back, true)
	case barred:
		e.rest(grace)
	}
	if got.then != nil {
		got.then()
	}
	return got.more, nil
}

// enqueue queues what was claimed by a call that was sent at a time, and sets
// hands to it. If there was another NotNow meanwhile it returns all of it instead.
func (e *engine[W]) enqueue(grace context.Context, sent time.Time, bars int, got batch[W]) (back []*job[W], barred bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, now := make([]*job[W], len(got.work)), time.Now()
	for i := range got.work {
		all[i] = &job[W]{work: got.work[i], sent: sent, lease: got.lease, queued: now}
		e.held[all[i]] = true
	}
	if len(all) > 0 {
		e.shorten(got.lease)
	}
	if bars != e.bars {
		return all, true // it would overtake what was given back
	}
	e.queue = append(e.queue, all...)
	e.open += len(all)
	if !e.stopBy.IsZero() {
		return nil, false // it is not begun any more, but released
	}
	for range min(len(e.queue), e.concurrency-e.busy) {
		e.busy++
		e.hands.Go(func() { e.hand(grace) })
	}
	return nil, false
}

// shorten has leases extended as often as the one that was given needs. The mutex is held.
func (e *engine[W]) shorten(lease time.Duration) {
	if every := lease / 3; e.every == 0 || every < e.every {
		e.every = every
		signal(e.leased)
	}
}

// leave gives back what has been queued for some time, and has the source rest.
// It reports whether there was anything, or reason to leave.
func (e *engine[W]) leave(ctx context.Context, age time.Duration) bool {
	e.mu.Lock()
	var back []*job[W]
	if len(e.queue) > 0 && time.Since(e.queue[0].queued) >= age {
		back = e.takeQueue()
	}
	e.mu.Unlock()
	switch {
	case len(back) > 0:
		e.giveBack(ctx, back, true)
	case age > 0:
		return false
	default:
		e.rest(ctx)
	}
	return true
}

// rest has the source not ring until the next claim.
func (e *engine[W]) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	_ = e.release(ctx, nil, true) // where it fails, the next ring finds nobody and goes on
}
