package subscribers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	settleFor = 2 * time.Second        // calls that settle are tried, when the grace is over
	settleMin = 500 * time.Millisecond // is what a handler that returns later still gets
)

// stopping bounds the time in which work is settled.
func (e *engine[W]) stopping(by time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopBy = by
}

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

// withReceipt makes a call of a handler with the work as it is leased now. If its
// lease is lost that is noted.
func (e *engine[W]) withReceipt(j *job[W], call func(*W) error) error {
	e.receipts.RLock()
	defer e.receipts.RUnlock()
	work := j.work
	err := call(&work)
	e.noteLost(j, err)
	return err
}

func (e *engine[W]) noteLost(j *job[W], err error) {
	if errors.Is(err, notify.ErrLeaseLost) {
		e.mu.Lock()
		defer e.mu.Unlock()
		j.lose()
	}
}

// settled notes that a handler settled its work.
func (e *engine[W]) settled(j *job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j.settled = true
	delete(e.held, j)
}

func (e *engine[W]) isSettled(j *job[W]) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.settled
}

// works returns the work of jobs, as it is.
func works[W any](js []*job[W]) []W {
	all := make([]W, len(js))
	for i, j := range js {
		all[i] = j.work
	}
	return all
}

// drop takes jobs out of what is held: they are settled, or cannot be.
func (e *engine[W]) drop(js []*job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range js {
		delete(e.held, j)
	}
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

// keepLeases extends leases each time that a third of the shortest one has
// passed, until ctx ends. While nothing is held it rests.
func (e *engine[W]) keepLeases(ctx context.Context) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var due time.Time // of the next extension; zero: nothing was held
	extending := outage.New(e.log, slog.LevelError, "cannot extend leases; retrying", "extending leases again")
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.leased:
			if next := time.Now().Add(e.shortest(false)); due.IsZero() || next.Before(due) {
				due = next
			}
		case <-timer.C:
			err := e.extendAll(ctx)
			extending.Note(err)
			every := e.shortest(true)
			switch due = time.Now().Add(every); {
			case err != nil:
				due = time.Now().Add(every / 8)
			case every == 0:
				due = time.Time{}
			}
		}
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
	}
}

// shortest returns a third of the shortest lease, as far as it is known; again
// looks at what is held now. Zero: nothing is.
func (e *engine[W]) shortest(again bool) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if again {
		e.every = 0
		for j := range e.held {
			if every := j.lease / 3; e.every == 0 || every < e.every {
				e.every = every
			}
		}
	}
	return e.every
}

// extendAll extends the leases that are a third over, each by what its claim gave,
// and gives up those that ended.
func (e *engine[W]) extendAll(ctx context.Context) error {
	e.receipts.Lock()
	defer e.receipts.Unlock()
	due := e.expiring()
	slices.SortFunc(due, func(a, b *job[W]) int { return cmp.Compare(a.lease, b.lease) })
	for len(due) > 0 {
		n := 1
		for n < min(len(due), store.MaxClaim) && due[n].lease == due[0].lease {
			n++
		}
		sent := time.Now()
		renew, lost, err := e.extend(ctx, works(due[:n]), due[0].lease)
		if err != nil {
			return err
		}
		e.extended(due[:n], renew, sent, lost)
		due = due[n:]
	}
	return nil
}

// extended notes an extension; lost are the indexes of those that got none.
func (e *engine[W]) extended(page []*job[W], renew func(*W), sent time.Time, lost []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range lost {
		page[i].lose()
	}
	for _, j := range page {
		if !j.lost {
			renew(&j.work)
			j.sent = sent
		}
	}
}

// expiring returns what needs its lease extended.
func (e *engine[W]) expiring() (due []*job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.held {
		switch age := time.Since(j.sent); {
		case j.lost:
		case age >= j.lease:
			j.lose()
		case age >= j.lease/3:
			due = append(due, j)
		}
	}
	return due
}

// extendOne makes a call of a handler that extends the lease of its work; zero is
// the lease that it has.
func (e *engine[W]) extendOne(j *job[W], lease time.Duration, call func(*W, time.Duration) error) error {
	e.receipts.Lock()
	defer e.receipts.Unlock()
	lease, work, sent := cmp.Or(lease, j.lease), j.work, time.Now()
	err := call(&work, lease)
	e.noteLost(j, err)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j.work, j.sent, j.lease = work, sent, lease
	e.shorten(lease)
	return nil
}

// lose marks a lease as lost and ends the handler's context. The engine's mutex is held.
func (j *job[W]) lose() {
	j.lost = true
	if j.cancel != nil {
		j.cancel(notify.ErrLeaseLost)
	}
}
