package history

import "slices"

// where returns the places of a message at the end.
func (c *checker) where(m *message) []string {
	if m.id == nil {
		return c.places[m.member]
	}
	var where []string
	if c.final.Versions[m.id.member] == m.version {
		where = slices.Clone(c.places[m.id.member])
	}
	if c.final.Next[m.id.member] == m.version {
		where = append(where, "a successor")
	}
	return where
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

// removed reports whether an operation on the id may have removed a version. A dead one
// makes way for its successor.
func (id *identity) removed(m *message) (removed bool) {
	first, _ := m.published()
	since := func(o *op) bool { return o.maybe() && o.to() >= first }
	if slices.ContainsFunc(id.cancels, since) || slices.ContainsFunc(id.nexts, since) {
		return true
	}
	id.others(m, func(_ *message, p *op) {
		removed = removed || since(p) && (p.replaces() || p.call.After && m.mayDie())
	})
	return removed
}

// mayDie reports whether a version may have become a dead letter.
func (m *message) mayDie() bool {
	return slices.ContainsFunc(m.publishes, func(p *op) bool { return p.call.TTL > 0 || p.call.Limit > 0 || p.call.LateAfter > 0 }) ||
		slices.ContainsFunc(m.settles, func(s *op) bool {
			return s.maybe() && (s.call.Op == Bury || s.call.Op == Nack && (s.state() == "dead" || !s.ok()))
		}) || slices.ContainsFunc(m.handouts, (*handout).kept)
}

// takenNow reports whether a claim that acknowledges may have taken a message.
func (c *checker) takenNow(m *message) bool {
	first, _ := m.published()
	return slices.ContainsFunc(m.handouts, func(h *handout) bool { return h.call.Now }) ||
		slices.ContainsFunc(c.taking[m.topic], func(claim *op) bool { return c.arrives(claim) >= first })
}

// mayDrop reports whether a message may have been dropped.
func (c *checker) mayDrop(m *message) bool {
	return slices.ContainsFunc(m.publishes, func(p *op) bool {
		if !p.maybe() {
			return false
		}
		return p.call.Busy || p.call.LateMode == "drop" || p.call.Fail == "drop" && (p.call.TTL > 0 || c.mayUseUp(m)) || p.call.Op == Broadcast && p.call.TTL > 0
	})
}

// mayUseUp reports whether a message may have used up its attempts.
func (c *checker) mayUseUp(m *message) bool {
	limit := c.limit(m)
	if limit == 0 || c.kept[m.topic] {
		return true
	}
	most := len(c.open[m.topic])
	for _, h := range m.handouts {
		most = max(most, h.call.Attempt+len(c.open[m.topic]))
	}
	return most >= limit
}
