package subscribers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A worker handles the messages of one topic.
type worker struct {
	*engine[Delivery]
	leases  *leases
	inbox   reach.Inbox
	topic   string
	handler Handler
	o       HandleOptions

	clock  sample // of the last claim
	stats  *handovers
	wakeup wakeup // of one that handles messages of an age

	refused atomic.Pointer[string] // the member behind which one is tried after a TryAnother; nil: the oldest is

	// Guarded by Subscriber.mu.
	next    *worker // of the topic, once this one rests; nil: there is none
	before  *worker // of the topic, which has messages in hand yet; nil: there is none
	resting bool    // it claims no more
}

// isEnding reports whether another worker of the topic may follow.
func (w *worker) isEnding() bool {
	return w.o.Until != nil && w.o.Until.Err() != nil && (w.next == nil || w.next.isEnding())
}

// ring says that something may be ready. It never blocks.
func (w *worker) ring() { signal(w.rung) }

// claimMessages claims up to n messages. If there are fewer the inbox waits. The call
// is not cut off when the subscriber stops: only known messages can be released.
func (w *worker) claimMessages(ctx context.Context, n int, _ []Delivery) (batch[Delivery], error) {
	ctx = context.WithoutCancel(ctx)
	sent := time.Now()
	inbox := w.inbox
	if w.hasMinAge() {
		inbox = reach.Inbox{}
	}
	before, o := w.mailboxNow(), ClaimOptions{Max: n, MinAge: w.o.MinAge, try: w.probing()}
	if refused := w.refused.Load(); refused != nil {
		o.behind = *refused
	}
	got, err := w.leases.claim(ctx, w.topic, o, inbox, before.received)
	more, again := !got.short, time.Duration(0)
	switch {
	case err != nil:
	case w.hasMinAge():
		more, again = w.nextOfMinAge(got)
	case got.onTheWay: // it rings when it arrives
		again = handoverLost()
	}
	if err == nil {
		w.clock.note(got.now)
	}
	if err == nil && !got.onTheWay {
		w.found(got.now, before)
	}
	return batch[Delivery]{work: got.deliveries, more: more, again: again, then: func() {
		for _, bad := range got.unreadable {
			j := &job[Delivery]{work: bad.Delivery, sent: sent, lease: bad.Lease}
			_ = w.nack(ctx, j, store.Nack{Reason: bad.fault.Error(), Bury: true})
		}
		for _, death := range got.buried {
			w.reportDeath(death)
		}
		for _, one := range got.dropped {
			w.reportDropped(one)
		}
	}}, err
}

// leaseOf returns the lease that the claim gave a message, and how long an attempt may
// take with all extensions.
func leaseOf(d *Delivery) (lease, most time.Duration) { return d.Lease, d.TryTimeout }

// handleMessage calls the handler once. A message that failed is due again later.
func (w *worker) handleMessage(grace context.Context, j *job[Delivery], d Delivery) bool {
	verdict, reason, err := w.try(grace, j, &d, func(ctx context.Context) error {
		h := &hold{worker: w, job: j}
		defer h.end()
		given := d // which the handler may change
		given.by = h
		err := w.handler(ctx, &given)
		if refused := (*notNow)(nil); errors.As(err, &refused) && refused.another {
			w.refused.Store(new(d.member()))
		}
		return err
	})
	if verdict == hasFailed {
		w.reject(grace, j, err, reason)
	}
	return verdict == isDone
}

// reject rejects a message as the error of its handler says. One that may not be put off
// is rejected for that reason.
func (w *worker) reject(ctx context.Context, j *job[Delivery], err error, reason string) {
	if delay, put := snoozeOf(err); put {
		refused := w.nack(ctx, j, store.Nack{Delay: delay, Reason: reason, Keep: true, ToEnd: true})
		if refused == nil {
			return
		}
		reason += "; " + refused.Error()
	}
	_ = w.nack(ctx, j, store.Nack{Delay: delayOf(err, ByBackoff), Reason: reason, Bury: errors.Is(err, ErrBury)})
}

// nack rejects a message, buries it or puts it off. It retries while the lease lasts. It
// returns the Fault of one that may not be put off, and reports any other error.
func (w *worker) nack(ctx context.Context, j *job[Delivery], n store.Nack) (refused *notify.Fault) {
	var d Delivery
	var out Outcome
	err := w.settle(ctx, []*job[Delivery]{j}, func(ctx context.Context) (err error) {
		d = j.work
		out, err = w.leases.nack(ctx, &d, n)
		return err
	})
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, notify.ErrUnreplicated):
		w.log.Warn("message failed; a failover may undo the rejection", "id", d.ID, "attempt", d.Attempt, "reason", n.Reason, "error", err)
	case err != nil:
		w.log.Warn("cannot reject message; its lease expires", "id", d.ID, "attempt", d.Attempt, "reason", n.Reason, "error", err)
	default:
		w.rejected(d, n, out)
	}
	return nil
}

// rejected reports a message that was rejected, or put off.
func (w *worker) rejected(d Delivery, n store.Nack, out Outcome) {
	switch {
	case out.State == notify.Dead:
		w.reportDeath(Death{Delivery: d, Reason: n.Reason, Attempts: out.Attempts})
	case out.Dropped:
		w.reportDropped(Death{Delivery: d, Reason: n.Reason, Attempts: out.Attempts})
	case out.Cancelled:
		w.log.Info("message cancelled", "id", d.ID, "attempt", d.Attempt)
	case n.Keep:
		w.log.Debug("message put off", "id", d.ID, "attempt", d.Attempt, "reason", n.Reason, "again", out.Due)
	default:
		w.log.Warn("message failed", "id", d.ID, "attempt", d.Attempt, "reason", n.Reason, "again", out.Due)
	}
}

// reportDropped reports a message that was dropped.
func (w *worker) reportDropped(one Death) {
	w.log.Warn("message dropped", "id", one.ID, "reason", one.Reason, "attempts", one.Attempts)
	if w.o.OnDropped != nil {
		w.o.OnDropped(one)
	}
}

// reportDeath reports a message that was buried.
func (w *worker) reportDeath(death Death) {
	w.log.Warn("message died", "id", death.ID, "reason", death.Reason, "attempts", death.Attempts)
	if w.o.OnDead != nil {
		w.o.OnDead(death)
	}
}

// releaseMessages releases messages. To rest, the inbox leaves the waiting list.
func (w *worker) releaseMessages(ctx context.Context, back []*job[Delivery], rest bool) error {
	var inbox reach.Inbox
	var received int64
	if rest {
		inbox, received = w.inbox, w.leaves()
	}
	_, err := w.leases.releaseMany(ctx, w.topic, inbox, received, works(back))
	return err
}

func (w *worker) extendMessages(ctx context.Context, all []Delivery, lease time.Duration) (extension[Delivery], error) {
	e, err := w.leases.extendMany(ctx, all, lease)
	return extension[Delivery]{func(i int, d *Delivery) { d.extended(e.Receipts[i]) }, e.Lost, e.Stopped}, err
}

// stop ends the work on a message that is to be cancelled, if this worker has it.
func (w *worker) stop(member string) {
	w.stopWork(func(d *Delivery) bool { return d.member() == member })
}

// A hold makes the calls of a handler's delivery, by the present receipt of the lease,
// and notes what became of the message: the engine does not settle a message again
// that the handler settled.
type hold struct {
	worker *worker
	job    *job[Delivery]

	mu   sync.Mutex // held while a call is under way
	over bool       // the message is settled, or the handler has returned
}

// end refuses later calls: the handler has returned.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

func (h *hold) ack(ctx context.Context, d *Delivery) error {
	return h.settle(ctx, "acknowledge", d, h.worker.leases.ack)
}

func (h *hold) ackWith(ctx context.Context, d *Delivery, r notify.AckResult) (forgotten bool, err error) {
	err = h.settle(ctx, "acknowledge", d, func(ctx context.Context, leased *Delivery) (err error) {
		forgotten, err = h.worker.leases.ackWith(ctx, leased, r)
		return err
	})
	return forgotten, err
}

func (h *hold) nack(ctx context.Context, d *Delivery, n store.Nack) (out Outcome, err error) {
	err = h.settle(ctx, "reject", d, func(ctx context.Context, leased *Delivery) (err error) {
		out, err = h.worker.leases.nack(ctx, leased, n)
		return err
	})
	if err == nil {
		h.worker.rejected(h.job.work, n, out)
	}
	return out, err
}

func (h *hold) release(ctx context.Context, d *Delivery) error {
	due := d.Due
	return h.settle(ctx, "release", d, func(ctx context.Context, leased *Delivery) error {
		leased.Due = due
		return h.worker.leases.release(ctx, leased)
	})
}

// settle makes a call that settles the message. A call that has begun is not cut off
// when ctx ends: the engine has to know whether the message is settled.
func (h *hold) settle(ctx context.Context, verb string, d *Delivery, call func(context.Context, *Delivery) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return d.lost(verb)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.worker.withReceipt(h.job, func(leased *Delivery) error {
		err := call(context.WithoutCancel(ctx), leased)
		if h.over = err == nil || errors.Is(err, notify.ErrUnreplicated); h.over {
			h.worker.settled(h.job) // before its lease would be extended
		}
		return err
	})
}

// extend extends the lease. The engine goes on with that length of it. A call that has
// begun is not cut off when ctx ends: without its receipt the lease would be lost.
func (h *hold) extend(ctx context.Context, d *Delivery, lease time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return d.lost("extend")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.worker.extendOne(h.job, lease, func(leased *Delivery, lease time.Duration) error {
		e, err := h.worker.leases.extendMany(context.WithoutCancel(ctx), []Delivery{*leased}, lease)
		if err = d.extension(e, err); err == nil {
			leased.extended(e.Receipts[0])
			d.ends = leased.Receipt
		}
		return err
	})
}
