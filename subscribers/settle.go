package subscribers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	settleFor = 2 * time.Second        // calls that settle are tried, when the grace is over
	settleMin = 500 * time.Millisecond // is what a handler that returns later still gets
)

// settle makes a call that needs the receipts of jobs, again while Redis is
// away, or does not let its user in, and their leases may last, whether or not ctx
// has ended. Where claims do not settle, one that was carried out and not replicated
// is not made again: that would hold up the others, and nobody was told that it is
// done.
func (e *engine[W]) settle(ctx context.Context, js []*job[W], call func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	least := time.Now().Add(settleMin)
	retry := newRetry(e.log)
	for {
		until := e.until(js, least) // which a stop may bring nearer
		err := e.settleOnce(ctx, until, call)
		again := (notify.Retryable(err) || store.LockedOut(err)) && (e.claimsSettle || !errors.Is(err, notify.ErrUnreplicated))
		if err != nil && (!again || time.Now().After(until)) {
			return err
		}
		retry.Wait(ctx, err)
		if err == nil {
			return nil
		}
	}
}

func (e *engine[W]) settleOnce(ctx context.Context, until time.Time, call func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	e.receipts.RLock()
	defer e.receipts.RUnlock()
	return call(ctx)
}

// until returns until when jobs may be settled: the last of their leases ends,
// unless that does not matter, or the engine's time does, but not before least.
func (e *engine[W]) until(js []*job[W], least time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := time.Time{}
	for _, j := range js {
		if end := j.sent.Add(j.lease); end.After(until) {
			until = end
		}
	}
	if e.claimsSettle {
		until = time.Now().Add(store.MaxLease)
	}
	switch {
	case e.stopBy.IsZero() || until.Before(e.stopBy):
		return until
	case e.stopBy.Before(least):
		return least
	}
	return e.stopBy
}

// giveBack gives jobs back untouched. If rest is set the source rests, also without jobs.
func (e *engine[W]) giveBack(ctx context.Context, js []*job[W], rest bool) {
	if len(js) == 0 {
		e.rest(ctx)
		return
	}
	err := e.settle(ctx, js, func(ctx context.Context) error {
		return e.release(ctx, js, rest)
	})
	if err != nil {
		e.log.Warn("cannot release "+e.noun+"s, their leases run out by themselves", e.noun+"s", len(js), "error", err)
	}
	e.drop(js)
}

// rest has the source not ring until the next claim.
func (e *engine[W]) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	_ = e.release(ctx, nil, true) // where it fails, the next ring finds nobody and goes on
}

// acknowledge acknowledges what was handled, all that came together while the
// call before was under way, until it is stopped and nothing is left.
func (e *engine[W]) acknowledge(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-e.handled:
			e.ackAll(ctx)
		case <-stop:
			e.ackAll(ctx)
			return
		}
	}
}

// takeHandled returns what is to be acknowledged, less that whose lease was lost
// while it was handled, if that matters: it may come again.
func (e *engine[W]) takeHandled() []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	js := e.done
	e.done = nil
	return slices.DeleteFunc(js, func(j *job[W]) bool {
		if !j.lost || e.claimsSettle {
			return false
		}
		e.log.Warn("lease lost while handling, the "+e.noun+" may come again", e.about(&j.work)...)
		delete(e.held, j)
		return true
	})
}

func (e *engine[W]) ackAll(ctx context.Context) {
	js := e.takeHandled()
	if len(js) == 0 {
		return
	}
	var lost []W
	tries := 0
	err := e.settle(ctx, js, func(ctx context.Context) (err error) {
		tries++
		lost, err = e.ack(ctx, works(js))
		return err
	})
	e.drop(js)
	var wrong *store.ReplyError
	switch {
	case errors.Is(err, notify.ErrUnreplicated):
		e.log.Warn("acknowledged, a failover may bring the "+e.noun+"s back", e.noun+"s", len(js), "error", err)
	case errors.As(err, &wrong):
		e.log.Error("wrong answer to an acknowledgement, the "+e.noun+"s may come again", e.noun+"s", len(js), "error", err)
	case err != nil:
		e.log.Error("cannot acknowledge, the "+e.noun+"s will come again", e.noun+"s", len(js), "error", err)
	}
	if tries > 1 {
		return // those that the first try acknowledged are told as lost
	}
	for i := range lost {
		e.log.Warn("lease lost before the acknowledgement, the "+e.noun+" may come again", e.about(&lost[i])...)
	}
}
