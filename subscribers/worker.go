package subscribers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
)

const (
	ahead   = 5 * time.Millisecond   // of work that is claimed ahead of the hands
	stalled = 100 * time.Millisecond // after which what was claimed ahead is released
)

// A worker handles the messages of one topic. Its goroutines: one that claims,
// one that acknowledges, one that extends leases, and up to o.Concurrency hands.
type worker struct {
	claimer *Claimer
	inbox   string
	topic   string
	handler Handler
	o       HandleOptions
	grace   time.Duration
	log     *slog.Logger

	rung    chan struct{} // something may be ready
	freed   chan struct{} // enough hands came free to claim again
	handled chan struct{} // something is to be acknowledged
	hands   sync.WaitGroup

	// receipts is held for writing while leases are extended, which changes the
	// receipts, and for reading by every call that settles with them.
	receipts sync.RWMutex

	mu     sync.Mutex
	queue  []*inHand        // claimed, not begun
	held   map[*inHand]bool // claimed, not settled
	done   []*inHand        // handled, not acknowledged
	open   int              // queued or being handled
	busy   int              // hands
	stopBy time.Time        // when settling ends; zero while the subscriber runs
	low    int              // the claiming goroutine waits for freed until fewer are open; 0: it does not
	mean   time.Duration    // of handling a message, a moving average
	barred time.Time        // until when nothing is claimed, after a NotNow
	probe  bool             // one message is claimed at a time, after a NotNow
}

// inHand is a claimed message.
type inHand struct {
	Delivery // Receipt is guarded by worker.receipts and worker.mu
	queued   time.Time
	sent     time.Time               // before the call that gave the lease; guarded by worker.mu
	lost     bool                    // the lease; guarded by worker.mu
	cancel   context.CancelCauseFunc // of the handler's context, nil before; guarded by worker.mu
}

func newWorker(s *Subscriber, topic string, handler Handler, o HandleOptions) *worker {
	return &worker{
		claimer: NewClaimer(s.store, o.MaxAttempts), inbox: s.inbox, topic: topic, handler: handler, o: o,
		grace: s.o.Grace, log: s.o.Logger.With("topic", topic),
		rung: make(chan struct{}, 1), freed: make(chan struct{}, 1), handled: make(chan struct{}, 1),
		held: make(map[*inHand]bool),
	}
}

// signal leaves a mark in a channel that holds one. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ring tells that something may be ready. It never blocks.
func (w *worker) ring() { signal(w.rung) }

// run handles messages until ctx ends, and returns when all is settled.
func (w *worker) run(ctx context.Context) error {
	grace, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer after(ctx, 0, func() { w.stopping(time.Now().Add(w.grace + settleFor)) })()
	defer after(ctx, w.grace, func() { interrupt(ErrStopping) })()
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	var helpers sync.WaitGroup
	helpers.Go(func() { w.acknowledge(grace, settling.Done()) })
	helpers.Go(func() { keepLeases(settling, w.o.Lease, w.log, w.extend) })

	err := w.claimLoop(ctx, grace)
	w.leave(grace, 0)
	w.hands.Wait()
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

// claimLoop claims whenever hands are free and something may be ready, until
// ctx ends. What it claimed is handled until grace ends.
func (w *worker) claimLoop(ctx, grace context.Context) error {
	waiting := true // to be rung; at first because the connection stands
	stall := time.NewTimer(stalled)
	defer stall.Stop()
	unbarred := time.NewTimer(math.MaxInt64)
	defer unbarred.Stop()
	pause := pause{log: w.log}
	for ctx.Err() == nil {
		if n := w.wanted(); n > 0 && !waiting {
			short, err := w.claim(grace, n)
			if errors.Is(err, notify.ErrUnfit) {
				return err
			}
			waiting = short
			pause.after(ctx, err)
			continue
		}
		w.watch(stall, unbarred)
		select {
		case <-ctx.Done():
		case <-w.rung:
			waiting = false
		case <-w.freed:
		case <-unbarred.C:
			waiting = w.resume() && waiting
		case <-stall.C:
			if w.leave(grace, stalled) {
				waiting = false
			}
		}
	}
	return nil
}

// watch sets timers for when the oldest message in the queue will have been
// there too long, and for when messages are claimed again after a NotNow.
func (w *worker) watch(stall, unbarred *time.Timer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.barred.IsZero() {
		unbarred.Reset(time.Until(w.barred))
	}
	if len(w.queue) == 0 {
		stall.Stop()
		return
	}
	stall.Reset(time.Until(w.queue[0].queued.Add(stalled)))
}

// wanted returns how many messages to claim now: for the free hands, and as
// many as the hands were seen to handle in a moment, so that fast handlers need
// not wait for claims while slow ones take nothing from other subscribers.
func (w *worker) wanted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := 0
	switch {
	case time.Now().Before(w.barred):
		return 0
	case w.probe && w.open == 0:
		return 1
	case w.probe:
		w.low = 1
		return 0
	case w.mean > 0:
		more = min(int(time.Duration(w.o.Concurrency)*ahead/w.mean), MaxClaim)
	}
	if low := w.o.Concurrency + (more+1)/2; w.open >= low {
		w.low = low
		return 0
	}
	return min(w.o.Concurrency+more-w.open, MaxClaim)
}

// claim claims up to n messages and queues them. It reports whether there were
// fewer, so that the inbox waits. The call is not cut off when the subscriber
// stops: what it leased has to be known to be released.
func (w *worker) claim(grace context.Context, n int) (short bool, err error) {
	sent := time.Now()
	got, err := w.claimer.claim(context.WithoutCancel(grace), w.topic, n, w.o.Lease, 0, w.inbox)
	if err != nil {
		return false, err
	}
	w.enqueue(grace, sent, got.deliveries)
	for _, bad := range got.unreadable {
		w.giveBack(grace, &inHand{Delivery: bad.Delivery, sent: sent}, 0, bad.fault.Error(), true)
	}
	for _, death := range got.buried {
		w.mourn(death)
	}
	return got.short, nil
}

// enqueue queues what was claimed by a call that was sent at a time, and sets hands to it.
func (w *worker) enqueue(grace context.Context, sent time.Time, ds []Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for i := range ds {
		m := &inHand{Delivery: ds[i], sent: sent, queued: now}
		w.queue = append(w.queue, m)
		w.held[m] = true
	}
	w.open += len(ds)
	if !w.stopBy.IsZero() {
		return // they are not begun any more, but released
	}
	for range min(len(w.queue), w.o.Concurrency-w.busy) {
		w.busy++
		w.hands.Go(func() { w.hand(grace) })
	}
}

// leave releases what has been queued for some time, and with it stops waiting
// to be rung. It reports whether there was anything, or reason to leave.
func (w *worker) leave(ctx context.Context, age time.Duration) bool {
	w.mu.Lock()
	var unbegun []*inHand
	if n := len(w.queue); n > 0 && time.Since(w.queue[0].queued) >= age {
		unbegun, w.queue = w.queue, nil
		w.open -= n
		w.mean = max(w.mean, time.Duration(w.o.Concurrency)*ahead+1) // nothing is claimed ahead for now
	}
	w.mu.Unlock()
	if age > 0 && len(unbegun) == 0 {
		return false
	}
	if len(unbegun) > 0 {
		w.release(ctx, unbegun, w.inbox)
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	_, _ = w.claimer.release(ctx, w.topic, w.inbox, nil) // where it fails, the next ring finds nobody and goes on
	return true
}

// hand handles messages until none is queued.
func (w *worker) hand(grace context.Context) {
	for {
		m, d, ctx := w.begin(grace)
		if m == nil {
			return
		}
		began := time.Now()
		reason, err := w.call(ctx, &d)
		took := time.Since(began)
		if err != nil {
			w.fail(grace, context.Cause(ctx), m, reason, err)
		} else {
			w.unbar()
		}
		m.cancel(nil)
		w.finish(m, took, err == nil)
	}
}

// begin takes the next message from the queue, with a copy for the handler; nil if there is none.
func (w *worker) begin(grace context.Context) (*inHand, Delivery, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		m := w.queue[0]
		w.queue = w.queue[1:]
		if m.lost || time.Since(m.sent) >= w.o.Lease { // somebody else may have it
			delete(w.held, m)
			w.close()
			continue
		}
		ctx, cancel := context.WithCancelCause(grace)
		m.cancel = cancel
		return m, m.Delivery, ctx
	}
	w.busy--
	return nil, Delivery{}, nil
}

// call runs the handler and returns its error and what that says. A panic, of
// the handler or of its error, is an error.
func (w *worker) call(ctx context.Context, d *Delivery) (reason string, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("handler panicked", "id", d.ID, "attempt", d.Attempt, "panic", p, "stack", string(debug.Stack()))
			reason = fmt.Sprintf("panic: %v", p)
			err = errors.New(reason)
		}
	}()
	if err = w.handler(ctx, d); err != nil {
		reason = err.Error()
	}
	return reason, err
}

// close takes note that a message is neither queued nor being handled any
// more. The mutex is held.
func (w *worker) close() {
	w.open--
	if w.open < w.low {
		w.low = 0
		signal(w.freed)
	}
}

// finish takes note that a message was handled, and has it acknowledged if it is done.
func (w *worker) finish(m *inHand, took time.Duration, ack bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close()
	w.mean += (max(took, time.Microsecond) - w.mean) / 8
	w.mean = max(w.mean, time.Microsecond)
	if ack {
		w.done = append(w.done, m)
		if len(w.done) == 1 {
			signal(w.handled)
		}
	} else {
		delete(w.held, m)
	}
}

// fail gives a message back that its handler did not do; ended is why the
// handler's context ended, if it did.
func (w *worker) fail(ctx context.Context, ended error, m *inHand, reason string, err error) {
	var barred *notNow
	switch {
	case errors.Is(ended, notify.ErrLeaseLost):
		w.log.Warn("lease lost while handling", "id", m.ID, "attempt", m.Attempt)
	case errors.Is(ended, ErrStopping), errors.Is(err, ErrStopping):
		w.release(ctx, []*inHand{m}, "")
	case errors.As(err, &barred):
		w.bar(barred.pause)
		w.release(ctx, []*inHand{m}, w.inbox)
		w.leave(ctx, time.Nanosecond)
	default:
		w.unbar()
		delay := w.o.Backoff.Delay(m.Attempt)
		var put *retryAfter
		if errors.As(err, &put) {
			delay = max(put.delay, 0)
		}
		w.giveBack(ctx, m, delay, reason, errors.Is(err, ErrBury))
	}
}

// bar has nothing claimed for a while, and then one message at a time.
func (w *worker) bar(pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.barred, w.probe = time.Now().Add(pause), true
	signal(w.freed) // so that the claiming goroutine sets its timer
}

// resume ends the while for which nothing is claimed. It reports whether it is not over yet.
func (w *worker) resume() (barred bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.barred) {
		return true
	}
	w.barred = time.Time{}
	return false
}

// unbar has as many claimed as before: a message was dealt with.
func (w *worker) unbar() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probe = false
}

// mourn tells of a message that was buried.
func (w *worker) mourn(death Death) {
	w.log.Warn("message died", "id", death.ID, "reason", death.Reason, "attempts", death.Attempts)
	if w.o.OnDead != nil {
		w.o.OnDead(death)
	}
}

// giveBack gives a message back or buries it, trying while its lease lasts.
func (w *worker) giveBack(ctx context.Context, m *inHand, delay time.Duration, reason string, dead bool) {
	var out Outcome
	err := w.settle(ctx, []*inHand{m}, func(ctx context.Context) (err error) {
		out, err = w.claimer.nack(ctx, m.Delivery, delay, reason, dead)
		return err
	})
	switch {
	case errors.Is(err, notify.ErrUnreplicated):
		w.log.Warn("message failed, a failover may forget that", "id", m.ID, "attempt", m.Attempt, "reason", reason, "error", err)
	case err != nil:
		w.log.Warn("cannot give message back, its lease runs out by itself", "id", m.ID, "attempt", m.Attempt, "reason", reason, "error", err)
	case out.State == notify.Dead:
		w.receipts.RLock()
		death := Death{Delivery: m.Delivery, Reason: reason, Attempts: out.Attempts}
		w.receipts.RUnlock()
		w.mourn(death)
	default:
		w.log.Warn("message failed", "id", m.ID, "attempt", m.Attempt, "reason", reason, "again", out.Due)
	}
}

// release gives messages back untouched.
func (w *worker) release(ctx context.Context, ms []*inHand, inbox string) {
	err := w.settle(ctx, ms, func(ctx context.Context) error {
		_, err := w.claimer.release(ctx, w.topic, inbox, deliveries(ms))
		return err
	})
	if err != nil {
		w.log.Warn("cannot release messages, their leases run out by themselves", "messages", len(ms), "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range ms {
		delete(w.held, m)
	}
}

func deliveries(ms []*inHand) []Delivery {
	ds := make([]Delivery, len(ms))
	for i, m := range ms {
		ds[i] = m.Delivery
	}
	return ds
}

// pause is the pause of a loop after calls to Redis that failed. It logs when
// they begin to fail and when they are well again.
type pause struct {
	log *slog.Logger
	backoff.Pause
}

func (p *pause) after(ctx context.Context, err error) {
	switch {
	case err == nil && p.Waited():
		p.log.Info("calls to redis succeed again")
		p.Reset()
	case err != nil && ctx.Err() == nil:
		if !p.Waited() {
			p.log.Error("call to redis failed, trying on", "error", err)
		}
		p.Wait(ctx)
	}
}
