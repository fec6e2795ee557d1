package history

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// early finds handouts before the due time, by Redis's clock.
func (c *checker) early(m *message, h *handout) {
	if h.claimed < h.call.Due {
		c.violate(Early, fmt.Sprintf("%s was handed out %d ms before it was due", m.member, h.call.Due-h.claimed), h.op)
		return
	}
	if c.promisedUndone(m.topic, -never, h.latest()) {
		return // an acknowledged due time may be forgotten
	}
	writes := c.dueWrites(m, h)
	due := int64(math.MaxInt64)
	for _, w := range writes {
		due = min(due, w.due())
	}
	if len(writes) > 0 && h.claimed < due {
		c.violate(Early, fmt.Sprintf("%s was handed out %d ms before the acknowledged due time", m.member, due-h.claimed), append(writes, h.op)...)
	}
}

// dueWrites returns the operations that may have set the due time at which a message was
// handed out, or none if they are unknown.
func (c *checker) dueWrites(m *message, h *handout) []*op {
	if slices.ContainsFunc(m.reschedules, func(r *op) bool { return c.halfCopied(m, r.from(), min(r.to(), h.at)) }) {
		return nil
	}
	if slices.ContainsFunc(m.publishes, func(p *op) bool { return p.call.AfterGroup != "" }) {
		return nil // it comes with its group, whatever time it was given
	}
	var writes []*op
	for _, w := range slices.Concat(m.publishes, m.reschedules, m.requeues, m.settles) {
		if w.maybe() && w.from() <= h.latest() && w.call.Op != Ack && w.call.Op != Extend {
			writes = append(writes, w)
		}
	}
	for _, before := range m.handouts {
		if before != h && before.from() <= h.latest() && (before.kept() || c.clock.jumped(before.at, h.at)) {
			return nil // others may have given it back, or its lease may have expired at another time
		}
	}
	last := slices.DeleteFunc(slices.Clone(writes), func(w *op) bool {
		return slices.ContainsFunc(writes, func(later *op) bool {
			return later.ok() && later.from() > w.to() && later.to() < h.at
		})
	})
	if slices.ContainsFunc(last, func(w *op) bool { return w.due() == 0 }) {
		return nil
	}
	return last
}

// expired finds handouts after the time to live, which counts from the due time. A reschedule
// or a requeue sets a new due time.
func (c *checker) expired(m *message, h *handout) {
	if len(m.publishes) != 1 || slices.ContainsFunc(slices.Concat(m.reschedules, m.requeues), (*op).maybe) {
		return
	}
	p, claimed := m.publishes[0], h.claimed
	if h.call.Handed {
		claimed-- // the time of a hand-over is a multiple of 20 µs, so it may be that much ahead
	}
	if p.ok() && p.call.TTL > 0 && claimed >= p.due()+p.call.TTL {
		c.violate(Expired, fmt.Sprintf("%s was handed out %d ms after its time to live", m.member, h.claimed-p.due()-p.call.TTL), p, h.op)
	}
}

// late finds handouts that are later than stated, and records how late all are. After a
// release the due time is older than the handout before, so such a handout is skipped, and
// so is a successor, which waits for the message before it. The time without a free hand does not count.
func (c *checker) late(m *message, i int) {
	if c.mayWait(m.topic) || slices.ContainsFunc(m.publishes, func(p *op) bool { return p.call.After }) {
		return
	}
	h := m.handouts[i]
	due := h.at - (h.claimed-h.call.Due)*1000
	if m.key != "" {
		due = max(due, c.freed(m, h)) // until then it may have been blocked
	}
	if due > h.at || c.clock.jumped(due, h.at) || i > 0 && h.call.Due <= m.handouts[i-1].claimed {
		return
	}
	took := time.Duration(h.at-due) * time.Microsecond
	limit := due + c.bounds.Late.Microseconds()
	quiet := true
	for _, w := range c.windows {
		after := c.felt(w)
		if w.from() > h.at || after < due || !c.concerns(w, m.topic) {
			continue
		}
		quiet = false
		c.stats.Lateness[w.call.Kind] = append(c.stats.Lateness[w.call.Kind], took)
		if w.from() <= limit { // the fault began before the message should have been handed out
			limit = max(limit, after+c.bounds.Late.Microseconds())
		}
	}
	if quiet {
		limit = c.beside(m, took, due, h.at, limit)
	}
	if c.bounds.Late > 0 && h.at > limit+doubt+c.stood(due, h.at)+c.busy(m.topic, due, h.at) {
		c.violate(Late, fmt.Sprintf("%s was handed out %v after it was due, %v later than stated", m.member, took, time.Duration(h.at-limit)*time.Microsecond), append(m.publishes, h.op)...)
	}
}

// freed returns the last time before a handout at which the seat of its key may have become free. It returns never if that is not
// known.
func (c *checker) freed(m *message, h *handout) (last int64) {
	for _, other := range c.keys[m.of()] {
		if other == m {
			continue
		}
		for _, o := range slices.Concat(other.cancels, other.reschedules, other.requeues, other.settles) {
			if o.from() <= h.latest() {
				last = max(last, o.to())
			}
		}
		for _, one := range other.handouts {
			settled := slices.ContainsFunc(one.settles, func(s *op) bool { return s.ok() && s.call.Op != Extend })
			if !settled && one.at <= h.at {
				last = max(last, min(one.at+one.call.Lease*1000, h.at))
			}
		}
		for _, p := range other.publishes {
			if p.call.TTL > 0 && p.from() <= h.latest() {
				last = max(last, min(c.clock.machine((p.due()+p.call.TTL)*1000, h.latest()), h.at))
			}
		}
	}
	return last
}

// mayWait reports whether messages of a topic may wait, ready, for as long as it takes.
func (c *checker) mayWait(topic string) bool {
	_, limited := c.bounds.Limited[topic]
	return limited || slices.Contains(c.bounds.Pushed, topic) || slices.Contains(c.bounds.Bulk, topic)
}

// beside counts the lateness of a message that met no fault. It returns the limit, which is
// another one while a fault hit other shards, unless its claims had to ask those, too.
func (c *checker) beside(m *message, took time.Duration, due, at, limit int64) int64 {
	kind := Quiet
	for _, w := range c.windows {
		if w.touches(due, at) && !c.concerns(w, m.topic) {
			kind = Beside + w.call.Kind
		}
	}
	if kind != Quiet && !slices.Contains(c.bounds.Apart, m.topic) {
		return limit
	}
	c.stats.Lateness[kind] = append(c.stats.Lateness[kind], took)
	if kind != Quiet && c.bounds.Beside > 0 {
		return min(limit, due+c.bounds.Beside.Microseconds())
	}
	return limit
}
