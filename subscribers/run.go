package subscribers

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

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

// stopping bounds the time in which work is settled.
func (e *engine[W]) stopping(by time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopBy = by
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

// resume ends the while for which nothing is claimed. It reports whether it is over now.
func (e *engine[W]) resume() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.barred.IsZero() || time.Now().Before(e.barred) {
		return false
	}
	e.barred = time.Time{}
	return true
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
