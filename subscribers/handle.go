package subscribers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store"
)

// handleQueued handles queued work until none is left. last is the job whose handler ended the goroutine before; nil: there is none.
func (e *engine[W]) handleQueued(grace context.Context, last *job[W]) {
	j, work := e.next(grace, last, false)
	defer func() {
		if j != nil {
			e.log.Error("handler ended its goroutine, as by runtime.Goexit; unless it settled the "+e.noun+", that comes again when its lease ends",
				append(e.about(&work), "stack", string(debug.Stack()))...)
			e.handling.Go(func() { e.handleQueued(grace, j) })
		}
	}()
	for j != nil {
		j, work = e.next(grace, j, e.handle(grace, j, work))
	}
}

// next notes that a job was handled, unless that is nil, removes the next one from the
// queue, and returns it with a copy of the work for the handler; nil if the queue is
// empty.
func (e *engine[W]) next(grace context.Context, handled *job[W], done bool) (_ *job[W], work W) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if handled != nil {
		e.finish(handled, done)
	}
	for len(e.queue) > 0 {
		j := e.queue[0]
		e.queue = e.queue[1:]
		if j.lost || time.Since(j.sent) >= j.lease { // another process may have it
			delete(e.leased, j)
			e.close(j)
			continue
		}
		if j.stopped || j.isStale() {
			e.close(j)
			e.handling.Go(func() { _ = e.giveBack(grace, []*job[W]{j}, false) })
			continue
		}
		return j, j.work
	}
	e.busy--
	return nil, work
}

// close notes that a job is neither queued nor being handled any more. The mutex is held.
func (e *engine[W]) close(j *job[W]) {
	e.leave(j)
	if e.open < e.low || e.probe {
		e.low = 0
		signal(e.freed)
	}
}

// leave counts a job as open no longer. The mutex is held.
func (e *engine[W]) leave(j *job[W]) {
	e.open--
	e.budget.Give(budget.Grant{Pieces: 1, Bytes: int64(j.size)})
	if j.circuit == e.circuit {
		e.fresh--
	}
}

// finish notes that a job was handled, and has it acknowledged if it is done. The mutex is held.
func (e *engine[W]) finish(j *job[W], done bool) {
	e.close(j)
	e.mean += (max(j.took, time.Microsecond) - e.mean) / 8
	e.mean = max(e.mean, time.Microsecond)
	if !done {
		delete(e.leased, j)
		return
	}
	j.handled, e.probe = true, false
	e.done = append(e.done, j)
	if len(e.done) == 1 {
		signal(e.handled)
	}
}

// A verdict is the outcome of a call of a handler.
type verdict int

const (
	isDone    verdict = iota // the work is to be acknowledged
	hasFailed                // the source decides what follows
	isOver                   // it was released, or its lease is lost
)

// try calls a handler for a job, with a context that ends when its lease is lost, when
// the time of the attempt is over, when the work is cancelled and when grace ends. It
// releases work that was cancelled, interrupted or refused with a NotNow. If the handler failed, try returns why, and the
// error: an ErrTryTimeout if the time was over, whatever the handler wants.
func (e *engine[W]) try(grace context.Context, j *job[W], work *W, handler func(context.Context) error) (v verdict, reason string, err error) {
	ctx, cancel := context.WithCancelCause(grace)
	defer cancel(nil)
	e.mu.Lock()
	j.tries++
	switch j.cancel = cancel; {
	case j.lost: // since the attempt before
		j.lose()
	case j.stopped: // since it was taken from the queue
		j.stop()
	}
	overtime := j.overtime()
	e.mu.Unlock()
	if !overtime.IsZero() {
		defer time.AfterFunc(time.Until(overtime), func() { cancel(ErrTryTimeout) }).Stop()
	}
	began := time.Now()
	reason, err = e.call(ctx, work, handler)
	j.took += time.Since(began)
	ended := context.Cause(ctx)
	settled := e.isSettled(j)
	var refused *notNow
	switch {
	case settled && errors.As(err, &refused):
		_ = e.giveBack(ctx, e.openCircuit(j, refused.pause), true)
	case settled:
		e.closeCircuit()
		if err != nil {
			e.log.Warn("handler failed after it settled the "+e.noun, append(e.about(work), "error", reason)...)
		}
	case errors.Is(ended, store.ErrCancelled): // its release cancels it
		e.log.Info("the "+e.noun+" was cancelled while it was handled", e.about(work)...)
		_ = e.giveBack(ctx, []*job[W]{j}, false)
	case err == nil:
		return isDone, "", nil
	case errors.Is(ended, notify.ErrLeaseLost):
		e.log.Warn("lease lost while handling; the "+e.noun+" may come again", e.about(work)...)
	case errors.Is(ended, ErrTryTimeout):
		e.closeCircuit()
		err = timedOut(err)
		return hasFailed, err.Error(), err
	case ended != nil, errors.Is(err, ErrStopping):
		_ = e.giveBack(ctx, []*job[W]{j}, false)
	case errors.As(err, &refused):
		_ = e.giveBack(ctx, append([]*job[W]{j}, e.openCircuit(j, refused.pause)...), true)
	default:
		e.closeCircuit()
		return hasFailed, reason, err
	}
	return isOver, "", nil
}

// call runs a handler and returns its error and its text. A panic, of the
// handler or of its error, is an error.
func (e *engine[W]) call(ctx context.Context, work *W, handler func(context.Context) error) (reason string, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("handler panicked", append(e.about(work), "panic", p, "stack", string(debug.Stack()))...)
			reason = fmt.Sprintf("panic: %v", p)
			err = errors.New(reason)
		}
	}()
	if err = handler(ctx); err != nil {
		reason = err.Error()
	}
	return reason, err
}

// openCircuit stops claims for a while after a job, and then allows one piece of work at a
// time, behind that job, but beside what other hands have: that may take long, or hang.
// It returns the queued jobs, to be released.
func (e *engine[W]) openCircuit(j *job[W], pause time.Duration) []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.openUntil, e.probe = time.Now().Add(pause), true
	e.notNows++
	signal(e.freed) // so that the claiming goroutine sets its timer
	back := e.takeQueue()
	e.circuit++
	e.fresh, j.circuit = 1, e.circuit
	return back
}

// takeQueue empties the queue and returns its jobs, which are not handled. The mutex is held.
func (e *engine[W]) takeQueue() (all []*job[W]) {
	if len(e.queue) == 0 {
		return nil
	}
	all, e.queue = e.queue, nil
	for _, j := range all {
		e.leave(j)
	}
	e.mean = max(e.mean, time.Duration(e.concurrency)*ahead+1) // no work is claimed ahead for now
	return all
}

// closeCircuit allows as many claims as before: a piece of work failed for a reason of its own.
func (e *engine[W]) closeCircuit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = false
}
