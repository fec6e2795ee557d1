package subscribers

import (
	"context"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// A worker handles the messages of one topic.
type worker struct {
	*engine[Delivery]
	leases  *leases
	inbox   string
	topic   string
	handler Handler
	o       HandleOptions
}

func newWorker(s *Subscriber, topic string, handler Handler, o HandleOptions) *worker {
	w := &worker{leases: newLeases(s.store), inbox: s.inbox, topic: topic, handler: handler, o: o}
	w.engine = newEngine(source[Delivery]{
		claim: w.claimMessages, handle: w.handleMessage, release: w.releaseMessages, extend: w.extendMessages,
		ack: func(ctx context.Context, done []Delivery) ([]Delivery, error) {
			return w.leases.ackMany(ctx, w.topic, done)
		},
		ends:  func(err error) bool { return errors.Is(err, notify.ErrUnfit) },
		about: func(d *Delivery) []any { return []any{"id", d.ID, "attempt", d.Attempt} },
		noun:  "message",
	}, terms{
		concurrency: o.Concurrency, ahead: store.MaxClaim, grace: s.o.Grace,
	}, make(chan struct{}, 1), s.o.Logger.With("topic", topic))
	return w
}

// ring says that something may be ready. It never blocks.
func (w *worker) ring() { signal(w.rung) }

// claimMessages claims up to n messages. If there are fewer the inbox waits. The
// call is not cut off when the subscriber stops: what it leased has to be known
// to be released.
func (w *worker) claimMessages(ctx context.Context, n int, _ []Delivery) (batch[Delivery], error) {
	ctx = context.WithoutCancel(ctx)
	sent := time.Now()
	got, err := w.leases.claim(ctx, w.topic, ClaimOptions{Max: n}, w.inbox)
	return batch[Delivery]{work: got.deliveries, lease: got.lease, more: !got.short, then: func() {
		for _, bad := range got.unreadable {
			w.nack(ctx, &job[Delivery]{work: bad.Delivery, sent: sent, lease: got.lease}, 0, bad.fault.Error(), true)
		}
		for _, death := range got.buried {
			w.mourn(death)
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

// nack rejects a message, or buries it, trying while its lease lasts.
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
		w.log.Warn("message failed, a failover may forget that", "id", d.ID, "attempt", d.Attempt, "reason", reason, "error", err)
	case err != nil:
		w.log.Warn("cannot give message back, its lease runs out by itself", "id", d.ID, "attempt", d.Attempt, "reason", reason, "error", err)
	default:
		w.rejected(d, reason, out)
	}
}

// rejected reports a message that was rejected.
func (w *worker) rejected(d Delivery, reason string, out Outcome) {
	if out.State == notify.Dead {
		w.mourn(Death{Delivery: d, Reason: reason, Attempts: out.Attempts})
		return
	}
	w.log.Warn("message failed", "id", d.ID, "attempt", d.Attempt, "reason", reason, "again", out.Due)
}

// mourn reports a message that was buried.
func (w *worker) mourn(death Death) {
	w.log.Warn("message died", "id", death.ID, "reason", death.Reason, "attempts", death.Attempts)
	if w.o.OnDead != nil {
		w.o.OnDead(death)
	}
}

// releaseMessages gives messages back untouched. To rest is to leave the waiting list.
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
	return func(d *Delivery) { d.Receipt = receipt.withDigit(d.Receipt) }, lost, err
}
