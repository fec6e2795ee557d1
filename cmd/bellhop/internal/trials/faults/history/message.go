package history

import (
	"cmp"
	"slices"

	"github.com/bellhopd/bellhop/notify"
)

// A message is all operations on one member.
type message struct {
	member      string    // with its version behind a #, if it has one
	id          *identity // nil for one without a version
	version     string
	topic       string
	key         string // its own, of the topic; empty: it has none
	broadcast   bool
	publishes   []*op
	cancels     []*op
	nexts       []*op // CancelNext
	reschedules []*op
	requeues    []*op
	settles     []*op // Ack, Nack, Snooze, Bury, Release, Extend
	handouts    []*handout
	awaits      []*op
	rows        []*op // Archive
	pushes      []*op // Push

	original *message // of a copy
	first    *message // of a copy under an id of its own that which has its original's
}

// of returns what messages of one key have in common.
func (m *message) of() [2]string { return [2]string{m.topic, m.key} }

// lives returns how often a message may have been published. A publish that was repeated
// because its outcome was unknown may have happened twice.
func (m *message) lives() int {
	n := 0
	for _, p := range m.publishes {
		if p.maybe() {
			n++
		}
	}
	return n
}

// all returns all operations on the message.
func (m *message) all() []*op {
	all := slices.Concat(m.publishes, m.cancels, m.reschedules, m.requeues, m.settles)
	for _, h := range m.handouts {
		all = append(all, h.op)
	}
	return all
}

// ops returns the operations of the handouts.
func (m *message) ops() []*op {
	ops := make([]*op, len(m.handouts))
	for i, h := range m.handouts {
		ops[i] = h.op
	}
	return ops
}

// published returns when a version may have been published first and last.
func (m *message) published() (first, last int64) {
	first, last = never, -never
	for _, p := range m.publishes {
		if p.maybe() {
			first, last = min(first, p.from()), max(last, p.to())
		}
	}
	return first, last
}

// plain reports whether the message was published once, with an acknowledgement, and never changed.
func (m *message) plain() bool {
	return len(m.publishes) == 1 && m.publishes[0].ok() && len(m.reschedules)+len(m.requeues) == 0
}

// relate sorts the handouts of a message and gives each the calls that settle it.
func (m *message) relate(clock clock) {
	for _, h := range m.handouts {
		h.claimed = h.call.Receipt/1000 - h.call.Lease
		h.at = clock.machine(h.claimed*1000, h.latest())
	}
	slices.SortStableFunc(m.handouts, func(a, b *handout) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.call.Attempt, b.call.Attempt), cmp.Compare(a.from(), b.from()))
	})
	for _, s := range m.settles {
		if h := m.handout(s); h != nil {
			h.settles = append(h.settles, s)
		}
	}
}

// handout returns the last handout that had the receipt of a call, by itself or by an
// extension. If others own the lease, it returns the last handout of the process.
func (m *message) handout(settle *op) *handout {
	for _, h := range slices.Backward(m.handouts) {
		if h.from() <= settle.from() && m.leads(h.call.Receipt, settle) {
			return h
		}
	}
	for _, h := range slices.Backward(m.handouts) {
		if h.kept() && h.call.Process == settle.call.Process && h.from() <= settle.from() {
			return h
		}
	}
	return nil
}

// leads reports whether a receipt, or an extension of it, is the receipt of a call.
func (m *message) leads(receipt int64, settle *op) bool {
	for _, s := range m.settles {
		if receipt == receiptOf(settle) {
			return true
		}
		if s.call.Op == Extend && s.ok() && s.call.Was == receipt && s.from() < settle.from() {
			receipt = s.end.Receipt
		}
	}
	return receipt == receiptOf(settle)
}

// A handout is one delivery of a message to a worker.
type handout struct {
	*op           // Take or Handle
	claim   *op   // the claim of a Take
	claimed int64 // by Redis's clock, ms
	at      int64 // the same by the machine's, µs
	settles []*op // with a receipt of this handout
}

// latest bounds the time of the claim by the machine's clock. Its call is no other bound: what a poll gets was perhaps handed over, or
// claimed for an earlier poll, before the call.
func (h *handout) latest() int64 { return h.from() }

// kept reports whether others own the lease and settle the message, unrecorded.
func (h *handout) kept() bool { return h.claim == nil }

// An identity is an id that is published again and again. Each of its bodies is a message
// of its own, a version; the id belongs to one version at a time, and perhaps a successor.
type identity struct {
	member   string
	versions []*message
	cancels  []*op
	nexts    []*op
}

// others calls f for each publish of another version.
func (id *identity) others(m *message, f func(v *message, p *op)) {
	for _, v := range id.versions {
		for _, p := range v.publishes {
			if v != m {
				f(v, p)
			}
		}
	}
}

// A listener is one of the listeners of a process.
type listener struct {
	listen   *op
	pattern  notify.Pattern
	starts   []int64 // by shard: the position after which it misses nothing
	received []*op   // broadcasts and gaps, in the order of their calls
}
