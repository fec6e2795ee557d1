package history

import (
	"fmt"
	"slices"
)

// buried finds a dead letter of a message that was to be dropped, and that nobody buried.
func (c *checker) buried(m *message) {
	if !slices.Contains(c.where(m), "dead") || len(m.publishes) == 0 || m.publishes[0].call.Fail != "drop" {
		return
	}
	p := m.publishes[0].call
	onPurpose := p.LateAfter > 0 && p.LateMode != "drop" ||
		slices.ContainsFunc(m.settles, func(s *op) bool { return s.call.Op == Bury && s.maybe() }) ||
		slices.ContainsFunc(m.handouts, func(h *handout) bool { return h.kept() && !h.ok() }) // its handler may have
	if !onPurpose {
		c.violate(Dropped, m.member+" was to be dropped, and is dead", m.all()...)
	}
}

// dropped compares the counters of what was dropped with what is missing.
func (c *checker) dropped(sent []sending) {
	if c.final.Dropped == nil || c.undone(anyTopic, -never, never) || slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() }) {
		return
	}
	least, most := make(map[string]int64), make(map[string]int64)
	topics := make(map[string]bool)
	was := make(map[*message]bool, len(sent))
	for _, s := range sent {
		was[s.message] = true
	}
	for _, m := range c.messages {
		topics[m.topic] = true
		if !c.mayDrop(m) || len(c.where(m)) > 0 || was[m] {
			continue
		}
		most[m.topic] += int64(m.lives())
		cancelled := slices.ContainsFunc(m.cancels, (*op).maybe)
		if slices.ContainsFunc(m.publishes, (*op).ok) && !cancelled && !c.removed(m) && !(m.broadcast && c.final.Trimmed[m.topic] > 0) {
			least[m.topic]++
		}
	}
	for topic := range topics {
		if n := c.final.Dropped[topic]; n < least[topic] || n > most[topic] {
			c.violate(Dropped, fmt.Sprintf("%d messages of %s are counted as dropped, and %d to %d were", n, topic, least[topic], most[topic]))
		}
	}
}

// tooLate finds handouts after late_after.
func (c *checker) tooLate(m *message) {
	if len(m.publishes) != 1 || slices.ContainsFunc(slices.Concat(m.reschedules, m.requeues), (*op).maybe) {
		return
	}
	p := m.publishes[0]
	if !p.ok() || p.call.LateAfter == 0 || p.isNext() || c.forgot(p) {
		return
	}
	end := p.due() + p.call.LateAfter
	for _, h := range m.handouts {
		if h.claimed > end+1 {
			c.violate(TooLate, fmt.Sprintf("%s was handed out %d ms too late", m.member, h.claimed-end), p, h.op)
		}
	}
}

// leases finds leases that a message did not ask for, and those that exceed the timeout of
// its try.
func (c *checker) leases(m *message) {
	if len(m.publishes) != 1 {
		return
	}
	p := m.publishes[0]
	for _, h := range m.handouts {
		want := p.call.Lease
		if try := p.call.Try; want > 0 && try > 0 {
			want = min(want, try)
		}
		if want > 0 && h.call.Lease != want && !h.call.Now {
			c.violate(Lease, fmt.Sprintf("%s was given a lease of %d ms, and asks for %d ms", m.member, h.call.Lease, want), p, h.op)
		}
		if p.call.Try == 0 || h.call.Now {
			continue
		}
		bound := (h.claimed + p.call.Try + 1) * 1000
		if h.call.Receipt > bound {
			c.violate(Lease, fmt.Sprintf("%s was leased for longer than its try, by %d ms", m.member, (h.call.Receipt-bound)/1000), p, h.op)
		}
		for _, s := range h.settles {
			if s.call.Op == Extend && s.ok() && s.end.Receipt > bound {
				c.violate(Lease, fmt.Sprintf("%s was extended beyond its try, by %d ms", m.member, (s.end.Receipt-bound)/1000), p, h.op, s)
			}
		}
	}
}

// checkAsked finds claims that got more than they asked for.
func (c *checker) checkAsked() {
	got := make(map[*op][]*handout)
	for _, m := range c.messages {
		for _, h := range m.handouts {
			if h.claim == nil {
				continue
			}
			got[h.claim] = append(got[h.claim], h)
			if !slices.Contains(h.claim.topics(), m.topic) {
				c.violate(Asked, m.member+" was claimed by one who did not ask for its topic", h.claim, h.op)
			}
		}
	}
	for claim, all := range got {
		if most := claim.call.Count; most > 0 && len(all) > most {
			c.violate(Asked, fmt.Sprintf("%s was given %d messages, and asked for %d", claim.call.Process, len(all), most), claim)
		}
	}
}
