package subscribers

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// run handles work until ctx ends, and returns when all is settled. Its error is
// one of claim that ends it, or the cause of the end of ctx if that is one: of another shard.
func (e *engine[W]) run(ctx context.Context) error {
	grace, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	e.mu.Lock()
	e.handlers, e.accepts = grace, true
	e.mu.Unlock()
	defer afterEnd(ctx, 0, func() { e.stopping(time.Now().Add(e.grace + reach.SettleFor)) })()
	defer afterEnd(ctx, e.grace, func() { interrupt(ErrStopping) })()
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	var helpers sync.WaitGroup
	helpers.Go(func() { e.keepLeases(settling) })
	acknowledge := func() { e.acknowledge(grace, settling.Done()) }
	if !e.claimsSettle {
		helpers.Go(acknowledge)
	}
	err := e.claimLoop(ctx, grace)
	if cause := context.Cause(ctx); err == nil && e.ends(cause) {
		err = cause
	}
	if err != nil && !errors.Is(err, notify.ErrUnfit) && !errors.Is(err, errChanged) { // then this process has no right to its work any more
		e.stopping(time.Now().Add(reach.SettleFor))
		interrupt(err)
	}
	if e.claimsSettle {
		signal(e.handled)
		helpers.Go(acknowledge)
	}
	_ = e.giveBack(grace, e.refuse(), true)
	if e.rests != nil {
		e.rests()
	}
	e.claims.Done()
	e.claims.Wait()
	e.handling.Wait()
	settled()
	helpers.Wait()
	return err
}

// afterEnd calls f some time after ctx has ended, unless it is stopped before.
func afterEnd(ctx context.Context, d time.Duration, f func()) (stop func()) {
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
	if e.stopBy.IsZero() || by.Before(e.stopBy) {
		e.stopBy = by
	}
}

// claimLoop claims whenever the engine has capacity and there may be work, until ctx
// ends. Claimed work is handled until grace ends.
func (e *engine[W]) claimLoop(ctx, grace context.Context) error {
	more, rung := false, false // the source rings first, when its connection is up
	full := false              // the budget is used up
	timer := time.NewTimer(stalled)
	defer timer.Stop()
	retry := newRetry(e.outages)
	for ctx.Err() == nil {
		if back := e.takeRefused(); len(back) > 0 {
			_ = e.giveBack(grace, back, true)
			more = true
		}
		if e.wants(more && !full, rung) {
			var err error
			if more, full, err = e.claimOnce(ctx, grace); err != nil && e.ends(err) {
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
			full = false
		case <-timer.C:
			more = e.resume() || more
			if back := e.takeQueued(stalled); len(back) > 0 {
				_ = e.giveBack(grace, back, true)
				more = true
			}
		}
	}
	return nil
}

// resume ends the pause after a NotNow. It reports whether the pause is over now, or the
// time has come to claim again.
func (e *engine[W]) resume() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.again.IsZero() && !time.Now().Before(e.again) {
		e.again = time.Time{}
		return true
	}
	if !e.paused || time.Now().Before(e.openUntil) {
		return false
	}
	e.paused = false
	return true
}

// idleFor returns how long the loop may sleep: until the oldest queued work is stalled,
// or until work is claimed again after a NotNow.
func (e *engine[W]) idleFor() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := time.Hour
	if e.paused {
		next = time.Until(e.openUntil)
	}
	if !e.again.IsZero() {
		next = min(next, time.Until(e.again))
	}
	if j := e.oldest(); j != nil {
		next = min(next, time.Until(j.queued.Add(stalled)))
	}
	return next
}

// wants reports whether to claim now: since the source rang, to settle something, or where
// there may be more and hands are free. Else the engine waits for these.
func (e *engine[W]) wants(more, rung bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	claims := e.claimsSettle && (rung || len(e.done) > 0) || more && e.free() > 0
	e.waits = more && !claims
	return claims
}

// free returns how much to claim now, unless another engine is first: for the free hands, and
// as much as they handled in a moment before, so that fast handlers need not wait for claims
// while slow ones take nothing from other processes. The mutex is held.
func (e *engine[W]) free() int {
	more, open := 0, e.open+e.asked
	switch {
	case e.paused && time.Now().Before(e.openUntil), e.first(e) != e:
		return 0
	case e.probes():
		return 1
	case e.probe:
		return 0
	case e.mean > 0:
		more = min(int(time.Duration(e.concurrency)*ahead/e.mean), e.ahead)
	}
	if open >= e.concurrency+(more+1)/2 {
		return 0
	}
	return min(e.concurrency+more-open, record.MaxClaim)
}

// probes reports whether one piece of work may be begun after a NotNow. The mutex is held.
func (e *engine[W]) probes() bool {
	return e.probe && e.fresh+e.asked == 0 && e.open < e.concurrency
}

// probing reports whether one piece of work is claimed at a time, after a NotNow.
func (e *engine[W]) probing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.probe
}

// claimOnce claims what is wanted now and queues it, unless there was another NotNow
// meanwhile. It reports whether there may be more work now, and whether the budget is used up.
func (e *engine[W]) claimOnce(ctx, grace context.Context) (more, full bool, err error) {
	var js []*job[W]
	e.mu.Lock()
	n, notNows := e.free(), e.notNows
	granted := e.budget.Take(n, e.freed)
	full = n > 0 && granted.Pieces == 0
	if n = granted.Pieces; n == 0 && !e.claimsSettle { // since a message was handed over, or for the budget
		e.mu.Unlock()
		return true, full, nil
	}
	if e.claimsSettle {
		n := min(len(e.done), record.MaxClaim)
		js, e.done = e.done[:n:n], e.done[n:]
	}
	done := works(js)
	e.claiming = true
	e.ask(n)
	e.mu.Unlock()
	defer e.claimEnded()
	sent := time.Now()
	got, err := e.claim(ctx, n, done)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.done = append(js, e.done...)
		e.budget.Give(granted)
		return true, full, err
	}
	e.drop(js)
	e.claimed(got.more)
	switch back, refused := e.enqueue(sent, notNows, got, granted); {
	case len(back) > 0:
		_ = e.giveBack(grace, back, true)
	case refused:
		_ = e.rest(grace)
	}
	if got.then != nil {
		got.then()
	}
	e.claimAgain(got.again)
	return got.more || full, full, nil
}

// claimed notes that a claim brought all there was, unless there may be more.
func (e *engine[W]) claimed(more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.yields = e.yields && more
}

// claimAgain has the loop claim again after some time, if that is more than zero.
func (e *engine[W]) claimAgain(after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.again = (time.Time{}); after > 0 {
		e.again = time.Now().Add(after)
	}
}

// enqueue queues the work of a claim that was sent at a time, and starts goroutines
// for it. After another NotNow it returns all of the work instead. What was granted for
// the claim it gives back, but for what it queues.
func (e *engine[W]) enqueue(sent time.Time, notNows int, got batch[W], granted budget.Grant) (back []*job[W], refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.budget.Give(granted) }()
	all, now := make([]*job[W], len(got.work)), time.Now()
	for i := range got.work {
		j := &job[W]{work: got.work[i], queued: now}
		lease, most := e.lease(&j.work)
		j.begin(sent, lease, most)
		all[i], e.leased[j] = j, true
		e.shorten(j)
	}
	if notNows != e.notNows {
		return all, true // it would overtake released work
	}
	for _, j := range all {
		j.size = e.sizeOf(&j.work)
		granted.Pieces, granted.Bytes = granted.Pieces-1, granted.Bytes-int64(j.size)
	}
	e.start(all...)
	return nil, false
}

// sizeOf returns what the budget counts of a piece of work.
func (e *engine[W]) sizeOf(work *W) int {
	if e.size == nil {
		return 0
	}
	return e.size(work)
}

// start queues jobs, and starts goroutines for them unless the engine stops: then they
// are released, not begun. The mutex is held.
func (e *engine[W]) start(js ...*job[W]) {
	e.queue = append(e.queue, js...)
	e.open += len(js)
	e.fresh += len(js)
	for _, j := range js {
		j.of, j.circuit = e, e.circuit
	}
	if !e.stopBy.IsZero() {
		return
	}
	for range min(len(e.queue), e.concurrency-e.busy) {
		e.busy++
		e.handling.Go(func() { e.handleQueued(nil) })
	}
}

// oldest returns which of the engine's jobs is queued the longest; nil: none is. The mutex is held.
func (e *engine[W]) oldest() *job[W] {
	for _, j := range e.queue {
		if j.of == e {
			return j
		}
	}
	return nil
}

// takeQueued takes what is queued off the queue, if the oldest has been there for at least age.
func (e *engine[W]) takeQueued(age time.Duration) []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.oldest(); j == nil || time.Since(j.queued) < age {
		return nil
	}
	e.notNows++ // what a call under way brings would overtake it, too
	e.yields, e.waits = true, false
	return e.takeQueue()
}
