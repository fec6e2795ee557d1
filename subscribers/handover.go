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
func handoverLost() time.Duration { return record.HandoverLease + 100*time.Millisecond }

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

// takeOver begins to handle a message that was handed over. It does not block. It drops
// one that it cannot read, that came before, or too late: its lease ends.
func (w *worker) takeOver(h store.Handover) {
	defer w.ring() // the inbox waits again when it has claimed
	age := w.clock.since(h.At)
	d, err := w.leases.handedOver(h)
	j := &job[Delivery]{work: d, at: h.At, sent: time.Now().Add(-max(age, 0)), lease: record.HandoverLease, confirm: h.Full}
	w.stats.all.Add(1) // before the handler may begin
	if !w.hand(j, err == nil && age < record.HandoverLease) {
		w.stats.dropped.Add(1)
	}
}

// hand begins to handle work that came without a claim, if it is good. It drops work
// that came before, more than an inbox with room can have been sent, since anyone who may
// PUBLISH could make it up, and all when the engine has stopped. It reports whether it
// took the work.
func (e *engine[W]) hand(j *job[W], good bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := len(e.leased)+len(e.handed) >= e.concurrency+e.ahead+record.MaxClaim
	twice := j.at == e.received || slices.ContainsFunc(e.handed, func(other *job[W]) bool { return other.at == j.at })
	switch {
	case twice || full || !good || e.handlers == nil: // claims get nothing until it is ready again: it is older
		return false
	case e.claiming:
		e.handed = append(e.handed, j)
	default:
		e.begin(j)
	}
	return true
}

// begin queues work that was handed over, or releases it where a NotNow asks for rest or
// what was queued was released: it would overtake that. The mutex is held.
func (e *engine[W]) begin(j *job[W]) {
	e.received, j.queued = j.at, time.Now()
	e.leased[j] = true
	if e.yields || time.Now().Before(e.openUntil) || e.probe && !e.probes() {
		grace := e.handlers
		e.handling.Go(func() { _ = e.giveBack(grace, []*job[W]{j}, false) })
		return
	}
	e.confirming = true
	signal(e.shorter)
	e.start(e.handlers, j)
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
}

// lastReceived returns the time of the last hand-over before the claim that is under way.
func (e *engine[W]) lastReceived() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.received
}

// takeOver takes a message that was handed over. It does not block. It drops one that it
// cannot read, that came before, or beyond mostPending: its lease ends.
func (p *polls) takeOver(h store.Handover) {
	d, err := p.handedOver(h)
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.pending >= mostPending
	if full && p.queues[h.Topic] == nil { // nobody waits for that topic, if there is one
		p.stats.drop(1)
		return
	}
	q := p.queue(h.Topic)
	if err != nil || h.At == q.received || full {
		p.stats.drop(1)
	} else {
		q.received, q.handed = h.At, append(q.handed, handed{h, d})
		p.pending++
	}
	q.rung, q.listed = true, true // the inbox is handed no other before it claims
	p.start(q)
}

// dealHanded deals what was handed over, first come, first served, and has it confirmed.
// The callers do not wait for that: see [store.Handover.Promise]. It drops what is too
// late, and releases what a caller wants for a lease that cannot be promised, and what
// only callers wait for that have it acknowledged at once. The mutex is held.
func (p *polls) dealHanded(q *topicQueue) {
	for !q.asking && len(q.handed) > 0 {
		one, h := q.firstToHand(), q.handed[0]
		if one == nil {
			return
		}
		d, lease := h.Delivery, cmp.Or(one.terms.lease.Truncate(time.Millisecond), h.Full)
		q.handed = q.handed[1:]
		p.pending--
		switch {
		case q.clock.since(h.At) >= record.HandoverLease:
			p.stats.drop(1)
		case one.terms.ackNow || lease%time.Second != 0:
			p.stats.drop(1)
			p.begin(func() { p.giveBack(d) })
		default:
			d.Receipt, d.Lease, d.handed, d.worker = Receipt(h.Promise(lease)), lease, false, cmp.Or(one.terms.worker, p.name)
			one.got = append(one.got, d)
			p.stats.all.Add(1)
			p.begin(func() { p.confirm(d) })
			p.end(nil, one)
		}
	}
}

// firstToHand returns the poll that a hand-over is for: the first one that does not have
// it acknowledged at once, or else the first; nil if there is none. The mutex is held.
func (q *topicQueue) firstToHand() *poll {
	for _, one := range q.polls {
		if one.free(q) && !one.terms.ackNow {
			return one
		}
	}
	return q.firstFree()
}

// giveBack releases a message that was handed over; if it fails the lease ends.
func (p *polls) giveBack(d Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), record.HandoverLease)
	defer cancel()
	_, _ = p.releaseMany(ctx, d.Topic, reach.Inbox{}, []Delivery{d})
}

// confirm gives a message that was handed over the lease that its receipt promises. It
// tries until the lease that the message has is over: then it comes again.
func (p *polls) confirm(d Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), record.HandoverLease)
	defer cancel()
	var pause backoff.Pause
	for {
		_, err := p.store.Of(d.Topic).Confirm(ctx, d.Topic, d.worker, []store.Lease{d.lease()}) // one that is lost may be settled
		if err == nil {
			return
		}
		if pause.Wait(ctx); ctx.Err() != nil {
			p.log.Warn("cannot confirm a message that was handed over; it may come again", "topic", d.Topic, "id", d.ID, "error", err)
			return
		}
	}
}

// refuse has the engine take no hand-overs any more, and returns those that it has not begun.
func (e *engine[W]) refuse() []*job[W] {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handlers = nil
	return e.takeQueue()
}
