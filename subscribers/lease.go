package subscribers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

const (
	settleFor = 2 * time.Second        // calls that settle are tried, when the grace is over
	settleMin = 500 * time.Millisecond // is what a handler that returns later still gets
)

// stopping bounds the time in which messages are settled.
func (w *worker) stopping(by time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopBy = by
}

// settle makes a call that needs the receipts of messages, again while Redis is
// away and their leases may last, whether or not ctx has ended. One that was
// carried out and not replicated is not made again: that would hold up the
// others, and nobody was told that it is done.
func (w *worker) settle(ctx context.Context, ms []*inHand, call func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	least := time.Now().Add(settleMin)
	pause := pause{log: w.log}
	for {
		until := w.until(ms, least) // which the subscriber's stop may bring nearer
		err := w.settleOnce(ctx, until, call)
		if err != nil && (!notify.Away(err) || errors.Is(err, notify.ErrUnreplicated) || time.Now().After(until)) {
			return err
		}
		pause.after(ctx, err)
		if err == nil {
			return nil
		}
	}
}

func (w *worker) settleOnce(ctx context.Context, until time.Time, call func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	w.receipts.RLock()
	defer w.receipts.RUnlock()
	return call(ctx)
}

// until returns until when messages may be settled: the last of their leases
// ends, or the subscriber's time does, but not before least.
func (w *worker) until(ms []*inHand, least time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := ms[0].sent
	for _, m := range ms[1:] {
		if m.sent.After(until) {
			until = m.sent
		}
	}
	until = until.Add(w.o.Lease)
	if w.stopBy.IsZero() || until.Before(w.stopBy) {
		return until
	}
	if w.stopBy.Before(least) {
		return least
	}
	return w.stopBy
}

// acknowledge acknowledges what was handled, all that came together while the
// call before was under way, until it is stopped and nothing is left.
func (w *worker) acknowledge(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-w.handled:
			w.ack(ctx)
		case <-stop:
			w.ack(ctx)
			return
		}
	}
}

// takeHandled returns what is to be acknowledged, less those whose lease was
// lost while they were handled: they may come again.
func (w *worker) takeHandled() []*inHand {
	w.mu.Lock()
	defer w.mu.Unlock()
	ms := w.done
	w.done = nil
	return slices.DeleteFunc(ms, func(m *inHand) bool {
		if m.lost {
			w.log.Warn("lease lost while handling, the message may come again", "id", m.ID, "attempt", m.Attempt)
			delete(w.held, m)
		}
		return m.lost
	})
}

func (w *worker) ack(ctx context.Context) {
	ms := w.takeHandled()
	if len(ms) == 0 {
		return
	}
	var lost []Delivery
	tries := 0
	err := w.settle(ctx, ms, func(ctx context.Context) (err error) {
		tries++
		lost, err = w.claimer.AckMany(ctx, w.topic, deliveries(ms))
		return err
	})
	w.mu.Lock()
	for _, m := range ms {
		delete(w.held, m)
	}
	w.mu.Unlock()
	if errors.Is(err, notify.ErrUnreplicated) {
		w.log.Warn("acknowledged, a failover may bring the messages back", "messages", len(ms), "error", err)
	} else if err != nil {
		w.log.Error("cannot acknowledge, the messages will come again", "messages", len(ms), "error", err)
	}
	if tries > 1 {
		return // those that the first try acknowledged are told as lost
	}
	for i := range lost {
		w.log.Warn("lease lost before the acknowledgement, the message may come again", "id", lost[i].ID, "attempt", lost[i].Attempt)
	}
}

// keepLeases calls extend each time that a third of a lease has passed, until ctx ends.
func keepLeases(ctx context.Context, lease time.Duration, log *slog.Logger, extend func(context.Context) error) {
	every := lease / 3
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := every
		if err := extend(ctx); err != nil {
			log.Error("cannot extend leases, trying on", "error", err)
			next = every / 8
		}
		timer.Reset(next)
	}
}

// extend extends the leases that are a third over, and gives up those that ended.
func (w *worker) extend(ctx context.Context) error {
	w.receipts.Lock()
	defer w.receipts.Unlock()
	due := w.expiring()
	for len(due) > 0 {
		page := due[:min(len(due), MaxClaim)]
		due = due[len(page):]
		sent := time.Now()
		receipt, lost, err := w.claimer.extend(ctx, deliveries(page), w.o.Lease)
		if err != nil {
			return err
		}
		w.extended(page, receipt, sent, lost)
	}
	return nil
}

// extended takes note of an extension; lost are the positions, from 1, of those that got none.
func (w *worker) extended(page []*inHand, receipt Receipt, sent time.Time, lost []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, position := range lost {
		if i, _ := position.(int64); i >= 1 && int(i) <= len(page) {
			page[i-1].lose()
		}
	}
	for _, m := range page {
		if !m.lost {
			m.Receipt, m.sent = receipt.withDigit(m.Receipt), sent
		}
	}
}

// expiring returns what needs its lease extended.
func (w *worker) expiring() []*inHand {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []*inHand
	for m := range w.held {
		switch age := time.Since(m.sent); {
		case m.lost:
		case age >= w.o.Lease:
			m.lose()
		case age >= w.o.Lease/3:
			due = append(due, m)
		}
	}
	return due
}

// lose marks a lease as lost and ends the handler's context. The worker's mutex is held.
func (m *inHand) lose() {
	m.lost = true
	if m.cancel != nil {
		m.cancel(notify.ErrLeaseLost)
	}
}
