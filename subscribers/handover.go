package subscribers

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// confirmAfter is for how long a handler may run before the hand-over of its message
// is confirmed: most have acknowledged it by then.
const confirmAfter = 2 * time.Millisecond

// handoverLost is how long after a hand-over that did not arrive its message is ready
// again, with some time for the carrier.
func handoverLost() time.Duration { return record.HandoverLease + 2*record.HandoverSpare }

// A sample is one of Redis's clock.
type sample struct {
	mu   sync.Mutex
	us   int64
	read time.Time // when the answer with it came
}

func (s *sample) note(us int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.us, s.read = us, time.Now()
}

// since returns how long ago a time by Redis's clock, in us, was at the least.
func (s *sample) since(us int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read.IsZero() { // the first claim is under way
		return 0
	}
	return time.Since(s.read) - time.Duration(us-s.us)*time.Microsecond
}

// A mailbox knows which hand-overs of a topic to an inbox are good: those made since a call
// found none on its way. When the inbox leaves the waiting list what is on its way is taken
// back, and none is good until the next such call. Times are in us by Redis's clock.
type mailbox struct {
	received int64 // when the last one was made that was taken
	from     int64 // of that call; 0: there was none since the inbox left
	exits    int   // how often it left
}

// leave notes that the inbox leaves.
func (m *mailbox) leave() { m.from, m.exits = 0, m.exits+1 }

// found notes that a call at a time found no hand-over on its way, unless the inbox left
// since the mailbox was as before.
func (m *mailbox) found(now int64, before mailbox) {
	if m.exits == before.exits {
		m.from = now
	}
}

// isOpen reports whether any hand-over may be good, and isGood whether one made at a time is.
func (m *mailbox) isOpen() bool         { return m.from > 0 }
func (m *mailbox) isGood(at int64) bool { return m.isOpen() && at >= m.from }

// takeOver begins to handle a message that was handed over. It does not block. It drops
// one that it cannot read, that came before, or too late: its lease ends.
func (w *worker) takeOver(h store.Handover) {
	defer w.ring() // the inbox waits again when it has claimed
	age := w.clock.since(h.At)
	d, err := w.leases.handedOver(h)
	j := &job[Delivery]{work: d, at: h.At, sent: time.Now().Add(-max(age, 0)), lease: record.HandoverLease, confirm: h.Full}
	w.stats.all.Add(1) // before the handler may begin
	w.hand(j, err == nil && age < record.HandoverLease)
}

// hand begins to handle work that came without a claim, if it is good. It drops work
// that came before, or was taken back when the source rested, more than an inbox with room
// can have been sent, since anyone who may PUBLISH could make it up, and all when the
// engine has stopped.
func (e *engine[W]) hand(j *job[W], good bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := len(e.leased)+len(e.handed) >= e.concurrency+e.ahead+record.MaxClaim
	twice := j.at == e.box.received || slices.ContainsFunc(e.handed, func(other *job[W]) bool { return other.at == j.at })
	switch {
	case twice || full || !good || !e.accepts: // claims get nothing until it is ready again: it is older
		e.dropped()
	case e.claiming:
		e.handed = append(e.handed, j)
	default:
		e.begin(j)
	}
}

// begin queues work that was handed over, unless it was taken back. Where a NotNow asks for
// rest, or what was queued was released, which it would overtake, or where the budget is used
// up, it has the work be released before the next claim, which would overtake that. The
// mutex is held.
func (e *engine[W]) begin(j *job[W]) {
	if !e.box.isGood(j.at) {
		e.dropped()
		return
	}
	e.box.received, j.queued = j.at, time.Now()
	e.leased[j] = true
	j.size = e.sizeOf(&j.work)
	if e.yields || time.Now().Before(e.openUntil) || e.probe && !e.probes() || !e.budget.TryOne(j.size) {
		e.refused = append(e.refused, j)
		return
	}
	e.confirming = true
	signal(e.shorter)
	e.start(j)
}

// claimEnded begins to handle what was handed over during a claim, behind what the
// claim brought: that is older, since the claim did not know of the hand-over.
func (e *engine[W]) claimEnded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.handed {
		e.begin(j)
	}
	e.claiming, e.handed = false, nil
	if e.slow != nil {
		e.slow.Stop()
	}
	e.answered()
}

// takeRefused takes what is to be released.
func (e *engine[W]) takeRefused() (back []*job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	back, e.refused = e.refused, nil
	e.waits = e.waits && len(back) == 0
	return back
}

// found notes that a claim found no hand-over on its way, as [mailbox.found] does.
func (e *engine[W]) found(now int64, before mailbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.box.found(now, before)
}

// leaves notes that the source rests, and returns the time of the last hand-over that was received.
func (e *engine[W]) leaves() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.box.leave()
	return e.box.received
}

// mailboxNow returns the mailbox as it is before a claim.
func (e *engine[W]) mailboxNow() mailbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.box
}

// takeOver takes a message that was handed over. It does not block. It drops one that it
// cannot read, that came before, or beyond mostPending: its lease ends.
func (w *waiters) takeOver(h store.Handover) {
	d, err := w.handedOver(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	full := w.pending >= mostPending
	if full && w.queues[h.Topic] == nil { // nobody waits for that topic, if there is one
		w.stats.drop(1)
		return
	}
	q := w.queue(h.Topic)
	twice := h.At == q.box.received || slices.ContainsFunc(q.handed, func(other handed) bool { return other.At == h.At })
	if err != nil || twice || full {
		w.stats.drop(1)
	} else {
		q.handed = append(q.handed, handed{h, d})
		w.pending++
	}
	q.rung, q.listed = true, true // the inbox is handed no other before it claims
	w.start(q)
}

// dealHanded deals what was handed over, first come, first served, and has it confirmed.
// The callers do not wait for that: see [store.Handover.Promise]. It drops what is too
// late, or was taken back when the inbox left, and refuses what no caller can take. The
// mutex is held.
func (w *waiters) dealHanded(q *topicQueue) {
	for !q.asking && q.box.isOpen() && len(q.handed) > 0 && q.firstFree() != nil {
		h := q.handed[0]
		one, lease := q.firstToHand(h.Full)
		if one == nil {
			w.refuse(q)
			continue
		}
		q.box.received, q.handed = h.At, q.handed[1:]
		w.pending--
		if !q.box.isGood(h.At) || q.clock.since(h.At) >= record.HandoverLease {
			w.stats.drop(1)
			continue
		}
		d := h.Delivery
		d.Receipt, d.Lease, d.handed, d.worker = Receipt(h.Promise(lease)), lease, false, cmp.Or(one.terms.worker, w.name)
		one.got = append(one.got, d)
		w.stats.all.Add(1)
		w.begin(func() { w.confirm(d) })
		w.end(nil, one.waiter)
	}
}

// refuse has the first message that was handed over be released before the next claim. The mutex is held.
func (w *waiters) refuse(q *topicQueue) {
	h := q.handed[0]
	q.box.received, q.handed, q.back = h.At, q.handed[1:], append(q.back, h.Delivery)
	w.stats.drop(1)
}

// firstToHand returns the waiter that a hand-over is for, the first one that does not have it
// acknowledged at once, and its lease. It returns nil if there is none, or where the receipt
// of a hand-over cannot promise that lease. The mutex is held.
func (q *topicQueue) firstToHand(full time.Duration) (*shardWaiter, time.Duration) {
	for _, one := range q.waiters {
		if one.free(q) && !one.terms.ackNow {
			lease := cmp.Or(one.terms.lease.Truncate(time.Millisecond), full)
			if lease%record.HandoverSpare != 0 {
				break
			}
			return one, lease
		}
	}
	return nil, 0
}

// confirm gives a message that was handed over the lease that its receipt promises. It
// tries for longer than the lease that the message has, since Redis may stand still: then
// that is spared. If it fails the message comes again.
func (w *waiters) confirm(d Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), record.HandoverLease+reach.SettleFor)
	defer cancel()
	var pause backoff.Pause
	for {
		_, err := w.store.Of(d.Topic).Confirm(ctx, d.Topic, d.worker, []store.Lease{d.lease()}) // one that is lost may be settled
		if err == nil {
			return
		}
		if pause.Wait(ctx); ctx.Err() != nil {
			w.log.Warn("cannot confirm a message that was handed over; it may come again", "topic", d.Topic, "id", d.ID, "error", err)
			return
		}
	}
}

// refuse has the engine take no hand-overs any more, and returns what it has not begun.
func (e *engine[W]) refuse() []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accepts = false
	return append(e.takeQueue(), e.refused...)
}
