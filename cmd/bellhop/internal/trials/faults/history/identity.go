package history

import (
	"cmp"
	"fmt"
	"slices"
)

// followsItself reports whether a publish that was repeated after an unknown answer may have made two messages of one version.
func (m *message) followsItself() bool {
	unknown := func(p *op) bool { return p.maybe() && !p.ok() }
	return slices.ContainsFunc(m.publishes, unknown) && slices.ContainsFunc(m.publishes, (*op).isNext)
}

// checkIdentity checks the versions of an id against each other.
func (c *checker) checkIdentity(id *identity) {
	for _, m := range id.versions {
		c.replaced(id, m)
		c.cancelledVersion(id, m)
		c.unique(id, m)
		for _, p := range m.publishes {
			c.refused(id, p)
			c.previous(id, p)
			c.debounced(id, m, p)
		}
	}
	c.oneInHand(id)
}

// comesAfter finds a version that is handed out, or there, after an operation that ended it.
func (c *checker) comesAfter(rule Rule, m *message, what string, end *op) bool {
	for _, h := range m.handouts {
		if h.at > end.to()+doubt {
			c.violate(rule, fmt.Sprintf("%s was handed out after %s", m.member, what), append(slices.Clone(m.publishes), end, h.op)...)
			return true
		}
	}
	if where := c.where(m); len(where) > 0 {
		c.violate(rule, fmt.Sprintf("%s is %s at the end, after %s", m.member, where[0], what), append(slices.Clone(m.publishes), end)...)
		return true
	}
	return false
}

// replaced finds versions that come after another one was published in their place.
func (c *checker) replaced(id *identity, m *message) {
	first, last := m.published()
	found := first == never
	id.others(m, func(_ *message, p *op) {
		if found || !p.ok() || p.from() <= last || c.forgot(p) {
			return
		}
		if !p.isNext() || p.replaces() && c.waitsBehind(m, p) {
			found = c.comesAfter(Replaced, m, "another body was published in its place", p)
		}
	})
}

// waitsBehind reports whether a version was a successor for certain when an operation ended, if
// it was there at all.
func (c *checker) waitsBehind(m *message, until *op) bool {
	if len(m.publishes) != 1 || !m.publishes[0].isNext() {
		return false
	}
	return !slices.ContainsFunc(m.handouts, func(h *handout) bool { return h.from() <= until.to()+doubt || c.unseen(m, h) > 0 })
}

// cancelledVersion finds versions that come after the id was cancelled.
func (c *checker) cancelledVersion(id *identity, m *message) {
	first, last := m.published()
	if first == never {
		return
	}
	for _, cancel := range id.cancels {
		if cancel.ok() && !c.forgot(cancel) && cancel.from() > last && c.comesAfter(Cancelled, m, "the cancellation of its id was acknowledged", cancel) {
			return
		}
	}
	for _, cancel := range id.nexts {
		if !cancel.ok() || c.forgot(cancel) || cancel.from() <= last || !c.waitsBehind(m, cancel) {
			continue
		}
		alone := true
		id.others(m, func(_ *message, p *op) {
			alone = alone && (!p.maybe() || p.from() > cancel.to() || p.to() < m.publishes[0].from())
		})
		if alone && c.comesAfter(Cancelled, m, "the successor was cancelled", cancel) {
			return
		}
	}
}

// over reports whether a version that was published by p, and the time for which its id
// stays taken, were over for certain before a time. Another publish ended it if another
// says so.
func (c *checker) over(id *identity, m *message, p *op, before int64, another func(*op) bool) (over bool) {
	if p.to() == never {
		return false
	}
	unique := int64(0)
	for _, p := range m.publishes {
		unique = max(unique, p.call.Unique*1000)
	}
	ends := func(end *op, later int64) {
		over = over || end.ok() && end.from() > p.to() && end.to()+later < before-doubt && !c.forgot(end)
	}
	for _, h := range m.handouts {
		if ack := c.settled(h, Ack); ack != nil && !c.clock.jumped(ack.from(), before) {
			ends(ack, unique)
		}
	}
	for _, cancel := range id.cancels {
		ends(cancel, 0)
	}
	id.others(m, func(_ *message, p *op) {
		if !p.isNext() && another(p) {
			ends(p, 0)
		}
	})
	return over
}

// refused finds a publish that was refused, or left another message there, though the id was
// free.
func (c *checker) refused(id *identity, p *op) {
	if p.phase() != No || p.outcome() == "" || c.undone(p.call.Topic, -never, p.to()) {
		return
	}
	for _, v := range id.versions {
		for _, q := range v.publishes {
			if q != p && q.maybe() && q.from() < p.to() && !c.over(id, v, q, p.from(), (*op).ok) {
				return
			}
		}
	}
	c.violate(Refused, fmt.Sprintf("a publish to %s was %s, and the id was free", id.member, p.outcome()), append(id.ops(), p)...)
}

// previous finds a publish that says of what it replaced another due time than that had. A
// message that was in hand may have had others; if nobody saw that, later ones: it is due again when its lease ends.
func (c *checker) previous(id *identity, p *op) {
	if !p.ok() || p.outcome() == "created" || p.isNext() || p.end.Previous == 0 || c.undone(p.call.Topic, -never, p.to()) || c.struck(p.from()-1_000_000, p.to()) {
		return
	}
	for _, v := range id.versions {
		for _, q := range v.publishes {
			if q == p || !q.maybe() || q.from() > p.to() || c.over(id, v, q, p.from(), (*op).ok) {
				continue
			}
			inHand := slices.ContainsFunc(v.handouts, func(h *handout) bool { return h.at <= p.to()+doubt })
			lapsed := p.end.Previous > q.due() && c.unseenUntil(v, p.to()) > 0
			if !q.ok() || inHand || lapsed || q.due() == p.end.Previous {
				return
			}
		}
	}
	c.violate(Previous, fmt.Sprintf("a publish to %s says that the message before it was due at %d", id.member, p.end.Previous), append(id.ops(), p)...)
}

// ops returns the publishes and cancels of an id, and what settled its versions.
func (id *identity) ops() (ops []*op) {
	for _, v := range id.versions {
		ops = slices.Concat(ops, v.publishes, v.ops(), v.settles)
	}
	return slices.Concat(ops, id.cancels, id.nexts)
}

// unique finds a message that was created while its id was taken by one that had ended.
func (c *checker) unique(id *identity, m *message) {
	unique := int64(0)
	for _, p := range m.publishes {
		unique = max(unique, p.call.Unique*1000)
	}
	if unique == 0 || m.followsItself() {
		return
	}
	first, _ := m.published()
	for _, h := range m.handouts {
		ack := c.settled(h, Ack)
		if ack == nil {
			continue
		}
		id.others(m, func(_ *message, p *op) {
			free := ack.from() + unique
			if !p.ok() || p.outcome() != "created" || p.from() <= ack.to() || p.to() >= free-doubt || c.clock.jumped(ack.from(), p.to()) || c.undone(p.call.Topic, ack.from(), p.to()) {
				return
			}
			between := func(o *op) bool { return o != p && o.maybe() && o.to() >= first && o.from() <= p.to() }
			excused := slices.ContainsFunc(id.cancels, between)
			id.others(m, func(_ *message, q *op) { excused = excused || between(q) })
			if !excused {
				c.violate(Unique, fmt.Sprintf("%s was published again %d ms before its id was free", id.member, (free-p.to())/1000), append(slices.Clone(m.publishes), h.op, ack, p)...)
			}
		})
	}
}

// debounced finds a publish that put a message off for longer than max_wait after the first
// publish, and a message that was due later than that was acknowledged.
func (c *checker) debounced(id *identity, m *message, p *op) {
	if !p.ok() || p.call.Mode != "debounce" || p.isNext() || c.undone(p.call.Topic, -never, p.to()) {
		return
	}
	if h := firstOf(m); h != nil && len(m.publishes) == 1 && h.call.Attempt == 1 && h.call.Due > p.due() && c.unseen(m, h) == 0 && !c.struck(p.from(), h.at) {
		c.violate(Debounced, fmt.Sprintf("%s was due %d ms later than acknowledged", m.member, h.call.Due-p.due()), p, h.op)
	}
	if p.call.MaxWait == 0 || p.outcome() != "moved" {
		return
	}
	latest := c.clock.highest(p.from(), p.to()) / 1000 // it is never due before the publish
	for _, v := range id.versions {
		for _, q := range v.publishes {
			begins := q.maybe() && q != p && q.from() <= p.to() && (!q.ok() || q.outcome() != "moved")
			if begins && !c.over(id, v, q, p.from(), func(p *op) bool { return p.outcome() != "moved" }) { // a move goes on with it
				latest = max(latest, c.clock.highest(q.from(), min(q.to(), p.to()))/1000+p.call.MaxWait)
			}
		}
	}
	if p.due() > latest+1 {
		c.violate(Debounced, fmt.Sprintf("%s was put off until %d ms after its max_wait", m.member, p.due()-latest), append(id.ops(), p)...)
	}
}

func firstOf(m *message) *handout {
	if len(m.handouts) == 0 {
		return nil
	}
	return m.handouts[0]
}

// oneInHand finds a version that was handed out while another one of its id was in hand.
func (c *checker) oneInHand(id *identity) {
	type given struct {
		*handout
		of *message
	}
	var all []given
	for _, v := range id.versions {
		for _, h := range v.handouts {
			all = append(all, given{h, v})
		}
	}
	slices.SortStableFunc(all, func(a, b given) int { return cmp.Compare(a.at, b.at) })
	for i, h := range all {
		for _, before := range all[max(0, i-maxInHand):i] {
			if before.of == h.of || c.letGo(before.of, before.handout, h.handout) {
				continue
			}
			c.violate(Successor, fmt.Sprintf("%s was handed out while %s was in hand", h.of.member, before.of.member), slices.Concat([]*op{before.op, h.op}, before.of.publishes, h.of.publishes, before.settles)...)
			return
		}
	}
}

// maxInHand is how many handouts before one of them oneInHand looks at.
const maxInHand = 20

// letGo reports whether a handout may have been over before another one.
func (c *checker) letGo(m *message, before, h *handout) bool {
	if before.call.Now || c.leaseEnded(before, h) || c.rolledBack(m, before, h) {
		return true
	}
	if before.kept() && (before.ended() <= h.latest()+doubt || before.call.Target != "" && c.disturbed(before, h)) {
		return true
	}
	return slices.ContainsFunc(before.settles, func(s *op) bool {
		return s.call.Op != Extend && s.maybe() && s.from() <= h.latest()
	})
}
