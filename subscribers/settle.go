package subscribers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// settleMin is how long calls that settle are tried for a handler that returns when that of reach.SettleFor is over.
const settleMin = 500 * time.Millisecond

// settle makes a call that needs the receipts of jobs, whether or not ctx has ended. It
// repeats the call while Redis is unavailable or refuses the login, and while the leases
// may last. Where claims do not settle, a call that was executed and not replicated is
// not repeated: that would delay the others, and no caller relies on it yet.
func (e *engine[W]) settle(ctx context.Context, js []*job[W], call func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	least := time.Now().Add(settleMin)
	retry := newRetry(e.outages)
	for {
		err := e.settleOnce(ctx, js, least, call)
		again := (notify.Retryable(err) || reach.LockedOut(err)) && (e.claimsSettle || !errors.Is(err, notify.ErrUnreplicated))
		if err != nil && (!again || time.Now().After(e.until(js, least))) {
			return err
		}
		retry.Wait(ctx, err)
		if err == nil {
			return nil
		}
	}
}

func (e *engine[W]) settleOnce(ctx context.Context, js []*job[W], least time.Time, call func(context.Context) error) error {
	e.receipts.RLock() // behind which an extension may have made the leases longer, or a stop the time shorter
	defer e.receipts.RUnlock()
	ctx, cancel := context.WithDeadline(ctx, e.until(js, least))
	defer cancel()
	return call(ctx)
}

// until returns until when jobs may be settled: until the last of their leases ends,
// where that matters, or the engine's time to stop, but not before least.
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
		until = time.Now().Add(record.MaxLease)
	}
	switch {
	case e.stopBy.IsZero() || until.Before(e.stopBy):
		return until
	case e.stopBy.Before(least):
		return least
	}
	return e.stopBy
}

// giveBack releases jobs. If rest is set the source rests, also without jobs. It logs its error.
func (e *engine[W]) giveBack(ctx context.Context, js []*job[W], rest bool) error {
	if len(js) == 0 {
		return e.rest(ctx)
	}
	err := e.settle(ctx, js, func(ctx context.Context) error {
		return e.release(ctx, js, rest)
	})
	if err != nil {
		e.log.Warn("cannot release "+e.noun+"s; their leases expire", e.noun+"s", len(js), "error", err)
	}
	e.drop(js)
	return err
}

// putBack is giveBack for a hand. One that serves several shards leaves it to the goroutine that
// claims, which releases before it claims again: a shard that does not answer keeps no hand.
func (e *engine[W]) putBack(ctx context.Context, js []*job[W], rest bool) {
	if !e.refuses(js) {
		_ = e.giveBack(ctx, js, rest)
	}
}

// refuses has the goroutine that claims release jobs, and reports whether that runs and does so.
func (e *engine[W]) refuses(js []*job[W]) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.engines) == 1 || !e.accepts {
		return false
	}
	for _, j := range js {
		j.back = true
	}
	e.refused = append(e.refused, js...)
	signal(e.freed)
	return true
}

// rest keeps the source from ringing until the next claim. If it fails, the next ring finds no subscriber and rings another one.
func (e *engine[W]) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.SettleFor)
	defer cancel()
	return e.release(ctx, nil, true)
}

// acknowledge acknowledges handled jobs until it is stopped and none is left. One call
// acknowledges all jobs that were handled while the call before was under way.
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

// takeHandled returns the jobs to acknowledge. Where lost leases matter it leaves out
// the jobs whose lease was lost while they were handled: those may come again.
func (e *engine[W]) takeHandled() []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	js := e.done
	e.done = nil
	return slices.DeleteFunc(js, func(j *job[W]) bool {
		if !j.lost || e.claimsSettle {
			return false
		}
		e.log.Warn("lease lost while handling; the "+e.noun+" may come again", e.about(&j.work)...)
		delete(e.leased, j)
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
	var wrong *script.ReplyError
	switch {
	case errors.Is(err, notify.ErrUnreplicated):
		e.log.Warn("acknowledged, but not replicated; a failover may bring the "+e.noun+"s back", e.noun+"s", len(js), "error", err)
	case errors.As(err, &wrong):
		e.log.Error("wrong answer to an acknowledgement; the "+e.noun+"s may come again", e.noun+"s", len(js), "error", err)
	case err != nil:
		e.log.Error("cannot acknowledge; the "+e.noun+"s will come again", e.noun+"s", len(js), "error", err)
	}
	if tries > 1 {
		return // the reply names also those that the first try acknowledged
	}
	for i := range lost {
		e.log.Warn("lease lost before the acknowledgement; the "+e.noun+" may come again", e.about(&lost[i])...)
	}
}
