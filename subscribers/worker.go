package subscribers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// A worker handles the messages of one topic.
type worker struct {
	*engine[Delivery]
	leases  *leases
	inbox   string
	topic   string
	handler Handler
	o       HandleOptions

	clock sample // of the last claim
	stats *handovers
}

// ring says that something may be ready. It never blocks.
func (w *worker) ring() { signal(w.rung) }

// claimMessages claims up to n messages. If there are fewer the inbox waits. The call
// is not cut off when the subscriber stops: only known messages can be released.
func (w *worker) claimMessages(ctx context.Context, n int, _ []Delivery) (batch[Delivery], error) {
	ctx = context.WithoutCancel(ctx)
	sent := time.Now()
	got, err := w.leases.claim(ctx, w.topic, ClaimOptions{Max: n}, w.inbox, w.lastReceived())
	var again time.Duration
	if err == nil {
		w.clock.note(got.now)
		if got.onTheWay { // it rings when it arrives
			again = handoverLost
		}
	}
	return batch[Delivery]{work: got.deliveries, lease: got.lease, more: !got.short, again: again, then: func() {
		for _, bad := range got.unreadable {
			w.nack(ctx, &job[Delivery]{work: bad.Delivery, sent: sent, lease: got.lease}, 0, bad.fault.Error(), true)
		}
		for _, death := range got.buried {
			w.reportDeath(death)
		}
	}}, err
}

// handleMessage calls the handler once. A message that failed is due again later.
func (w *worker) handleMessage(grace context.Context, j *job[Delivery], d Delivery) bool {
	verdict, reason, err := w.try(grace, j, &d, func(ctx context.Context) error {
		h := &hold{worker: w, job: j}
		defer h.end()
		given := d // which the handler may change
		given.by = h
		return w.handler(ctx, &given)
	})
	if verdict == hasFailed {
		w.nack(grace, j, delayOf(err, ByBackoff), reason, errors.Is(err, ErrBury))
	}
	return verdict == isDone
}

// nack rejects a message, or buries it. It retries while the lease lasts.
func (w *worker) nack(ctx context.Context, j *job[Delivery], delay time.Duration, reason string, dead bool) {
	var d Delivery
	var out Outcome
	err := w.settle(ctx, []*job[Delivery]{j}, func(ctx context.Context) (err error) {
		d = j.work
		out, err = w.leases.nack(ctx, &d, delay, reason, dead)
		return err
	})
	switch {
	case errors.Is(err, notify.ErrUnreplicated):
		w.log.Warn("message failed; a failover may undo the rejection", "id", d.ID, "attempt", d.Attempt, "reason", reason, "error", err)
	case err != nil:
		w.log.Warn("cannot reject message; its lease expires", "id", d.ID, "attempt", d.Attempt, "reason", reason, "error", err)
	default:
		w.rejected(d, reason, out)
	}
}

// rejected reports a message that was rejected.
func (w *worker) rejected(d Delivery, reason string, out Outcome) {
	if out.State == notify.Dead {
		w.reportDeath(Death{Delivery: d, Reason: reason, Attempts: out.Attempts})
		return
	}
	w.log.Warn("message failed", "id", d.ID, "attempt", d.Attempt, "reason", reason, "again", out.Due)
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
	inbox := ""
	if rest {
		inbox = w.inbox
	}
	_, err := w.leases.releaseMany(ctx, w.topic, inbox, works(back))
	return err
}

func (w *worker) extendMessages(ctx context.Context, all []Delivery, lease time.Duration) (renew func(*Delivery), lost []int, err error) {
	receipt, lost, err := w.leases.extendMany(ctx, all, lease)
	return func(d *Delivery) { d.extended(receipt) }, lost, err
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

func (h *hold) nack(ctx context.Context, d *Delivery, delay time.Duration, reason string, bury bool) (out Outcome, err error) {
	err = h.settle(ctx, "reject", d, func(ctx context.Context, leased *Delivery) (err error) {
		out, err = h.worker.leases.nack(ctx, leased, delay, reason, bury)
		return err
	})
	if err == nil {
		h.worker.rejected(h.job.work, reason, out)
	}
	return out, err
}

func (h *hold) release(ctx context.Context, d *Delivery) error {
	return h.settle(ctx, "release", d, h.worker.leases.release)
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
		err := h.worker.leases.extend(context.WithoutCancel(ctx), leased, lease)
		d.Receipt, d.handed = leased.Receipt, leased.handed
		return err
	})
}
