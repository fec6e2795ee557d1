package history

import (
	"cmp"
	"fmt"
	"slices"
)

// checkKeys checks topics with the settings that they have by default: one message of a key has a seat, from when it is ready until
// it ends, also while it is put off; the next is the one that is due first.
func (c *checker) checkKeys() {
	for _, all := range c.keys {
		for _, m := range all {
			for i, h := range m.handouts {
				for _, other := range all {
					if other != m {
						c.seated(other, m, h)
					}
					if other != m && i == 0 {
						c.skipped(other, m, h)
					}
				}
			}
		}
	}
}

// seated finds a handout of a message while another one of its key has the seat.
func (c *checker) seated(sitter, m *message, h *handout) {
	var before *handout
	for _, one := range sitter.handouts {
		if cmp.Or(cmp.Compare(one.at, h.at), cmp.Compare(one.from(), h.from()), cmp.Compare(sitter.member, m.member)) < 0 {
			before = one
		}
	}
	if before == nil || c.clock.jumped(before.at, h.latest()) || c.unsure(sitter, before.at-doubt, h) || c.diedUnseen(sitter, before, h) {
		return
	}
	c.violate(Seat, fmt.Sprintf("%s was handed out while %s had the seat of their key", m.member, sitter.member),
		slices.Concat([]*op{before.op, h.op}, sitter.settles)...)
}

// skipped finds a message whose first handout comes before that of another one of its key, which was due earlier and had been
// published before.
func (c *checker) skipped(first, m *message, h *handout) {
	if len(first.publishes) != 1 || len(m.publishes) != 1 || len(first.handouts) > 0 && first.handouts[0].at <= h.at {
		return
	}
	p, q := first.publishes[0], m.publishes[0]
	if !p.ok() || !q.ok() || c.forgot(p) || p.to() >= q.from() || cmp.Or(cmp.Compare(p.due(), q.due()), cmp.Compare(first.member, m.member)) > 0 {
		return
	}
	moved := slices.ContainsFunc(slices.Concat(m.reschedules, m.requeues), (*op).maybe)
	if moved || p.call.Busy || h.call.Attempt != 1 || c.unsure(first, p.from(), h) || c.diedUnseen(first, nil, h) {
		return
	}
	c.violate(KeyOrder, fmt.Sprintf("%s was handed out before %s of the same key, which was due %d ms earlier and had been published before it",
		m.member, first.member, q.due()-p.due()), p, q, h.op)
}

// unsure reports whether a message may have left its seat, or its line, in some way between a time and the handout of another one.
func (c *checker) unsure(m *message, from int64, h *handout) bool {
	to := h.latest()
	if m.lives() > 1 || c.undone(m.topic, from, to) {
		return true
	}
	if slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() && w.touches(from, to) }) {
		return true
	}
	if c.stoppedBefore(m, h) || h.kept() && c.clock.jumped(from, to) || slices.ContainsFunc(m.handouts, func(o *handout) bool { return o.mayEnd(from, h) }) {
		return true
	}
	if slices.ContainsFunc(slices.Concat(m.cancels, m.reschedules, m.requeues, m.settles), func(o *op) bool {
		return o.maybe() && o.from() <= to && o.to() >= from && o.unseats()
	}) {
		return true
	}
	p := m.publishes[0]
	due := p.due()
	for _, r := range m.reschedules { // which moves the end of its time to live, too
		if r.maybe() {
			due = min(due, r.due())
		}
	}
	return p.call.TTL > 0 && c.clock.highest(to, to)/1000 >= due+p.call.TTL
}

// unseats reports whether an operation that may have happened takes a message's seat, or its place in the line.
func (o *op) unseats() bool {
	switch o.call.Op {
	case Release, Snooze, Extend:
		return false
	case Cancel:
		return !o.stops()
	case Nack:
		return !o.ok() || o.state() == "dead" || o.state() == "dropped"
	}
	return true
}

// mayEnd reports whether others that own the lease of a handout, and whose claims are not recorded, may have ended its message with it
// between a time and a handout of another one.
func (h *handout) mayEnd(from int64, other *handout) bool {
	return h.kept() && h.at >= from && h.ended() <= other.at+doubt && (h.ok() || h.state() == "dead" || h.state() == "dropped")
}

// stoppedBefore reports whether a message may have been cancelled with the end of its lease before a handout of another one.
func (c *checker) stoppedBefore(m *message, h *handout) bool {
	if !slices.ContainsFunc(m.cancels, func(o *op) bool { return o.call.Stop && o.maybe() && o.from() <= h.latest() }) {
		return false
	}
	var last *handout
	for _, one := range m.handouts {
		if one.at <= h.at {
			last = one
		}
	}
	return last == nil || c.unseen(m, h) > 0 || c.leaseEnded(last, h) ||
		slices.ContainsFunc(last.settles, func(s *op) bool { return s.call.Op != Extend && s.maybe() && s.from() <= h.latest() })
}

// diedUnseen reports whether a message may have used up its attempts before the handout of another one, without a call that says
// so: its last lease expired.
func (c *checker) diedUnseen(m *message, before, h *handout) bool {
	limit, used := c.limit(m), c.unseen(m, h)
	if before != nil {
		used += before.call.Attempt
	}
	return limit > 0 && used >= limit && (before == nil || c.leaseEnded(before, h)) && !c.livedOn(m, h)
}

// livedOn reports whether a message was claimed after the handout of another one, so that it had not died by then.
func (c *checker) livedOn(m *message, h *handout) bool {
	if m.lives() > 1 || slices.ContainsFunc(m.requeues, (*op).maybe) {
		return false
	}
	return slices.ContainsFunc(m.handouts, func(later *handout) bool {
		return later.at > h.at+doubt && !c.undone(m.topic, -never, later.latest()) &&
			!slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() && w.from() <= later.latest() })
	})
}
