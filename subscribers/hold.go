package subscribers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// A hold makes the calls of the delivery of a handler, by the receipt that the lease
// has now, and notes what became of the message: the engine does not settle again
// what the handler settled.
type hold struct {
	worker *worker
	job    *job[Delivery]

	mu   sync.Mutex // held while a call is under way
	over bool       // it is settled, or the handler has returned
}

// end refuses what a handler that has returned left running.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

func (h *hold) ack(ctx context.Context, d *Delivery) error {
	return h.settle("acknowledge", d, func(leased *Delivery) error { return h.worker.leases.ack(ctx, leased) })
}

func (h *hold) nack(ctx context.Context, d *Delivery, delay time.Duration, reason string, bury bool) (out Outcome, err error) {
	err = h.settle("reject", d, func(leased *Delivery) (err error) {
		out, err = h.worker.leases.nack(ctx, leased, delay, reason, bury)
		return err
	})
	if err == nil {
		h.worker.rejected(h.job.work, reason, out)
	}
	return out, err
}

func (h *hold) release(ctx context.Context, d *Delivery) error {
	return h.settle("release", d, func(leased *Delivery) error { return h.worker.leases.release(ctx, leased) })
}

// settle makes a call that settles the message.
func (h *hold) settle(verb string, d *Delivery, call func(*Delivery) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return d.lost(verb)
	}
	err := h.worker.withReceipt(h.job, call)
	if h.over = err == nil || errors.Is(err, notify.ErrUnreplicated); h.over {
		h.worker.settled(h.job)
	}
	return err
}

// extend extends the lease. The engine goes on with that length of it.
func (h *hold) extend(ctx context.Context, d *Delivery, lease time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return d.lost("extend")
	}
	return h.worker.extendOne(h.job, lease, func(leased *Delivery, lease time.Duration) error {
		err := h.worker.leases.extend(ctx, leased, lease)
		d.Receipt = leased.Receipt
		return err
	})
}
