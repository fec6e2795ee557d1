package history

import (
	"fmt"
	"math"
	"slices"
	"time"
)

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

// unpublished finds messages that were not published.
func (c *checker) unpublished(m *message) {
	began := int64(never)
	for _, p := range m.publishes {
		if p.maybe() {
			began = min(began, p.from())
		}
	}
	for _, h := range m.handouts {
		if h.latest() < began {
			c.violate(Unpublished, m.member+" was handed out, but no publish of it may have happened before", append(m.publishes, h.op)...)
			return
		}
	}
	if began == never && len(m.rows) > 0 {
		c.violate(Unpublished, m.member+" is in the archive, but no publish of it may have happened", append(m.publishes, m.rows...)...)
	}
	if where := c.where(m); began == never && len(where) > 0 {
		c.violate(Unpublished, fmt.Sprintf("%s is %s, but no publish of it may have happened", m.member, where[0]), m.publishes...)
	}
}

// lost finds messages that are missing. unsent is for broadcasts.
func (c *checker) lost(m *message) {
	if m.broadcast || len(c.where(m)) > 0 {
		return
	}
	for _, p := range m.publishes {
		if p.ok() && !c.forgot(p) && !c.removed(m) && !c.mayDrop(m) {
			c.violate(Lost, m.member+" was acknowledged, but is neither settled nor there", m.all()...)
			return
		}
	}
}

// removed reports whether an operation may have removed the message.
func (c *checker) removed(m *message) bool {
	if m.id != nil && m.id.removed(m) || c.takenNow(m) {
		return true
	}
	if slices.ContainsFunc(m.cancels, (*op).maybe) {
		return true
	}
	if slices.ContainsFunc(m.settles, func(s *op) bool { return s.call.Op == Ack && s.maybe() }) {
		return true
	}
	return slices.ContainsFunc(m.handouts, func(h *handout) bool { return h.kept() && h.ok() })
}

// cancelled finds messages that came after an acknowledged cancel.
func (c *checker) cancelled(m *message) {
	for _, cancel := range m.cancels {
		if !cancel.ok() || c.forgot(cancel) || m.lives() > 1 {
			continue
		}
		for _, h := range m.handouts {
			if h.earliest() > cancel.to()+doubt {
				c.violate(Cancelled, m.member+" was handed out after its cancellation was acknowledged", cancel, h.op)
				return
			}
		}
		if where := c.where(m); len(where) > 0 && (where[0] != "leased" || !cancel.stops()) {
			c.violate(Cancelled, fmt.Sprintf("%s was cancelled, but is %s at the end", m.member, where[0]), cancel)
			return
		}
	}
}

// again finds messages that came after a confirmed acknowledgement.
func (c *checker) again(m *message) {
	if m.lives() > 1 {
		return
	}
	for i, h := range m.handouts {
		ack := c.settled(h, Ack)
		if ack == nil {
			continue
		}
		if i+1 < len(m.handouts) && m.handouts[i+1].latest() >= ack.from() { // else it was stale
			c.violate(Again, m.member+" was handed out again after its acknowledgement was confirmed", h.op, ack, m.handouts[i+1].op)
			return
		}
		if where := c.where(m); len(where) > 0 {
			c.violate(Again, fmt.Sprintf("%s was acknowledged, but is %s at the end", m.member, where[0]), h.op, ack)
			return
		}
	}
}

// settled returns the call that settled a handout in a way for certain, or nil.
func (c *checker) settled(h *handout, way Op) *op {
	if way == Ack && h.call.Now && h.claim.ok() && !c.forgot(h.claim) {
		return h.claim
	}
	for _, s := range h.settles {
		if s.call.Op == way && s.ok() && !c.forgot(s) {
			return s
		}
	}
	return nil
}

// receipts finds receipts that should have been refused: of no handout, of one that had been
// given back, or of one that another had followed for certain.
func (c *checker) receipts(m *message) {
	for _, s := range m.settles {
		if !s.ok() || c.undone(m.topic, -never, s.to()) {
			continue
		}
		h := m.handout(s)
		if h == nil {
			c.violate(Receipts, fmt.Sprintf("%s was settled with the receipt %d, which was never given", m.member, receiptOf(s)), append(m.ops(), s)...)
			return
		}
		if back := c.gaveBack(h, s); back != nil {
			c.violate(Receipts, m.member+" was settled with a stale receipt: that had given it back already", h.op, back, s)
			return
		}
		if i := slices.Index(m.handouts, h); i+1 < len(m.handouts) && m.handouts[i+1].latest() < s.from() {
			c.violate(Receipts, m.member+" was settled with a stale receipt: it had been handed out again", h.op, m.handouts[i+1].op, s)
			return
		}
	}
}

// gaveBack returns the call that had settled or given back a handout for certain before
// another call began.
func (c *checker) gaveBack(h *handout, s *op) *op {
	i := slices.IndexFunc(h.settles, func(o *op) bool {
		return o.call.Op != Extend && o.ok() && o.to() < s.from() && receiptOf(o) == receiptOf(s)
	})
	if i < 0 {
		return nil
	}
	return h.settles[i]
}

// givenTwice finds a receipt with which a message was handed out twice. It skips handouts by
// another process, where the end of the lease is known only roughly.
func (c *checker) givenTwice(m *message) {
	given := make(map[int64]*handout, len(m.handouts))
	for _, h := range m.handouts {
		if h.call.Target != "" || h.call.Now {
			continue
		}
		before := given[h.call.Receipt]
		if before != nil && m.lives() == 1 && !c.undone(m.topic, -never, h.latest()) {
			c.violate(Receipts, fmt.Sprintf("%s was handed out twice with the receipt %d", m.member, h.call.Receipt), before.op, h.op)
			return
		}
		given[h.call.Receipt] = h
	}
}

// ops returns the operations of the handouts.
func (m *message) ops() []*op {
	ops := make([]*op, len(m.handouts))
	for i, h := range m.handouts {
		ops[i] = h.op
	}
	return ops
}

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
			return later.ok() && later.from() > w.to() && later.to() < h.earliest()
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
	p := m.publishes[0]
	if p.ok() && p.call.TTL > 0 && h.claimed >= p.due()+p.call.TTL {
		c.violate(Expired, fmt.Sprintf("%s was handed out %d ms after its time to live", m.member, h.claimed-p.due()-p.call.TTL), p, h.op)
	}
}

// late finds handouts that are later than stated, and records how late all are. After a
// release the due time is older than the handout before, so such a handout is skipped, and
// so is a successor, which waits for the message before it.
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
	if c.bounds.Late > 0 && h.at > limit+doubt+c.stood(due, h.at) {
		c.violate(Late, fmt.Sprintf("%s was handed out %v after it was due, %v later than stated", m.member, took, time.Duration(h.at-limit)*time.Microsecond), append(m.publishes, h.op)...)
	}
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

// felt returns until when a fault may have effects.
func (c *checker) felt(w window) int64 {
	recovery := c.recovery(w.call.Kind).Microseconds()
	if w.to == never {
		return never
	}
	return w.to + recovery + c.stood(w.to, w.to+recovery)
}

// recovery returns how long after its heal a fault may have effects.
func (c *checker) recovery(kind string) time.Duration {
	if d, known := c.bounds.After[kind]; known {
		return d
	}
	return c.bounds.Recovery
}
