package subscribers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// hand handles work until none is queued.
func (e *engine[W]) hand(grace context.Context) {
	for {
		j, work := e.begin()
		if j == nil {
			return
		}
		e.finish(j, e.handle(grace, j, work))
	}
}

// begin takes the next job from the queue, with a copy of the work for the
// handler; nil if there is none.
func (e *engine[W]) begin() (_ *job[W], work W) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) > 0 {
		j := e.queue[0]
		e.queue = e.queue[1:]
		if j.lost || time.Since(j.sent) >= j.lease { // somebody else may have it
			delete(e.held, j)
			e.close()
			continue
		}
		return j, j.work
	}
	e.busy--
	return nil, work
}

// close notes that a job is neither queued nor being handled any more. The mutex is held.
func (e *engine[W]) close() {
	e.open--
	if e.open < e.low {
		e.low = 0
		signal(e.freed)
	}
}

// finish notes that a job was handled, and has it acknowledged if it is done.
func (e *engine[W]) finish(j *job[W], done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.close()
	e.mean += (max(j.took, time.Microsecond) - e.mean) / 8
	e.mean = max(e.mean, time.Microsecond)
	if !done {
		delete(e.held, j)
		return
	}
	j.handled, e.probe = true, false
	e.done = append(e.done, j)
	if len(e.done) == 1 {
		signal(e.handled)
	}
}

// A verdict is what comes of a call of a handler.
type verdict int

const (
	isDone    verdict = iota // the work is to be acknowledged
	hasFailed                // the source says what comes of it
	isSettled                // it was given back, or lost
)

// try calls a handler for a job, with a context that ends when its lease is lost
// and when grace ends. It gives back what is barred or interrupted. If the
// handler failed it returns why, and the error.
func (e *engine[W]) try(grace context.Context, j *job[W], work *W, handler func(context.Context) error) (v verdict, reason string, err error) {
	ctx, cancel := context.WithCancelCause(grace)
	defer cancel(nil)
	e.mu.Lock()
	j.tries++
	if j.cancel = cancel; j.lost { // since the attempt before
		j.lose()
	}
	e.mu.Unlock()
	began := time.Now()
	reason, err = e.call(ctx, work, handler)
	j.took += time.Since(began)
	ended := context.Cause(ctx)
	settled := e.isSettled(j)
	var barred *notNow
	switch {
	case settled && errors.As(err, &barred):
		e.giveBack(ctx, e.bar(barred.pause), true)
	case settled:
		e.unbar()
		if err != nil {
			e.log.Warn("handler failed after it settled the "+e.noun, append(e.about(work), "error", reason)...)
		}
	case err == nil:
		return isDone, "", nil
	case errors.Is(ended, notify.ErrLeaseLost):
		e.log.Warn("lease lost while handling, the "+e.noun+" may come again", e.about(work)...)
	case ended != nil, errors.Is(err, ErrStopping):
		e.giveBack(ctx, []*job[W]{j}, false)
	case errors.As(err, &barred):
		e.giveBack(ctx, append([]*job[W]{j}, e.bar(barred.pause)...), true)
	default:
		e.unbar()
		return hasFailed, reason, err
	}
	return isSettled, "", nil
}

// call runs a handler and returns its error and what that says. A panic, of the
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

// bar has nothing claimed for a while, and then one piece of work at a time. It
// returns what is queued, to be given back.
func (e *engine[W]) bar(pause time.Duration) []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.barred, e.probe = time.Now().Add(pause), true
	e.bars++
	signal(e.freed) // so that the claiming goroutine sets its timer
	return e.takeQueue()
}

// takeQueue returns all that is queued, which is not handled. The mutex is held.
func (e *engine[W]) takeQueue() (all []*job[W]) {
	if len(e.queue) == 0 {
		return nil
	}
	all, e.queue = e.queue, nil
	e.open -= len(all)
	e.mean = max(e.mean, time.Duration(e.concurrency)*ahead+1) // nothing is claimed ahead for now
	return all
}

// unbar has as much claimed as before: a piece of work failed for a reason of its own.
func (e *engine[W]) unbar() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = false
}
