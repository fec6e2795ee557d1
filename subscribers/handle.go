package subscribers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store"
)

// handleQueued handles queued work until none is left. last is the job whose handler ended the goroutine before; nil: there is none.
func (h *hands[W]) handleQueued(last *job[W]) {
	j, work := h.next(last, false)
	defer func() {
		if j != nil {
			e := j.of
			e.log.Error("handler ended its goroutine, as by runtime.Goexit; unless it settled the "+e.noun+", that comes again when its lease ends",
				append(e.about(&work), "stack", string(debug.Stack()))...)
			h.handling.Go(func() { h.handleQueued(j) })
		}
	}()
	for j != nil {
		j, work = h.next(j, j.of.handle(j.of.handlers, j, work))
	}
}

// next notes that a job was handled, unless that is nil, removes the next one from the
// queue, and returns it with a copy of the work for the handler; nil if the queue is
// empty.
func (h *hands[W]) next(handled *job[W], done bool) (_ *job[W], work W) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if handled != nil {
		handled.of.finish(handled, done)
	}
	for len(h.queue) > 0 {
		j := h.queue[0]
		h.queue = h.queue[1:]
		e := j.of
		if j.lost || time.Since(j.sent) >= j.lease { // another process may have it
			delete(e.leased, j)
			e.close(j)
			continue
		}
		if j.stopped || j.isStale() {
			e.close(j)
			h.handling.Go(func() { _ = e.giveBack(e.handlers, []*job[W]{j}, false) })
			continue
		}
		return j, j.work
	}
	h.busy--
	return nil, work
}

// close notes that a job is neither queued nor being handled any more. The mutex is held.
func (e *engine[W]) close(j *job[W]) {
	e.leave(j)
	e.wake()
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
		if !j.back {
			delete(e.leased, j)
		}
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
		e.putBack(ctx, e.openCircuit(j, refused.pause), true)
	case settled:
		e.closeCircuit()
		if err != nil {
			e.log.Warn("handler failed after it settled the "+e.noun, append(e.about(work), "error", reason)...)
		}
	case errors.Is(ended, store.ErrCancelled): // its release cancels it
		e.log.Info("the "+e.noun+" was cancelled while it was handled", e.about(work)...)
		e.putBack(ctx, []*job[W]{j}, false)
	case err == nil:
		return isDone, "", nil
	case errors.Is(ended, notify.ErrLeaseLost):
		e.log.Warn("lease lost while handling; the "+e.noun+" may come again", e.about(work)...)
	case errors.Is(ended, ErrTryTimeout):
		e.closeCircuit()
		err = timedOut(err)
		return hasFailed, err.Error(), err
	case ended != nil, errors.Is(err, ErrStopping):
		e.putBack(ctx, []*job[W]{j}, false)
	case errors.As(err, &refused):
		e.putBack(ctx, append([]*job[W]{j}, e.openCircuit(j, refused.pause)...), true)
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
// It returns the queued jobs of the engine, to be released. Others release theirs before they
// claim again.
func (e *engine[W]) openCircuit(j *job[W], pause time.Duration) []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.openUntil, e.probe = time.Now().Add(pause), true
	e.notNows++
	for _, one := range e.engines {
		one.paused = true
		signal(one.freed) // so that the claiming goroutine sets its timer
		if one != e {
			one.refused = append(one.refused, one.takeQueue()...)
		}
	}
	back := e.takeQueue()
	e.circuit++
	e.fresh, j.circuit = 1, e.circuit
	return back
}

// takeQueue takes the engine's jobs off the queue and returns them, which are not handled. The mutex is held.
func (e *engine[W]) takeQueue() (all []*job[W]) {
	if e.oldest() == nil {
		return nil
	}
	e.queue = slices.DeleteFunc(e.queue, func(j *job[W]) bool {
		if j.of != e {
			return false
		}
		all = append(all, j)
		e.leave(j)
		return true
	})
	e.mean = max(e.mean, time.Duration(e.concurrency)*ahead+1) // no work is claimed ahead for now
	return all
}

// closeCircuit allows as many claims as before: a piece of work failed for a reason of its own.
func (e *engine[W]) closeCircuit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = false
}
