package history

import (
	"cmp"
	"fmt"
	"slices"
)

// checkLimits checks topics with limits.
func (c *checker) checkLimits() {
	of := make(map[string][]*handout)
	for _, m := range c.messages {
		if _, limited := c.bounds.Limited[m.topic]; limited {
			of[m.topic] = append(of[m.topic], m.handouts...)
		}
	}
	for topic, all := range of {
		slices.SortFunc(all, func(a, b *handout) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.from(), b.from()), cmp.Compare(a.call.ID, b.call.ID))
		})
		for i, h := range all {
			c.concurrent(topic, h, all[:i])
			c.rated(topic, all[i:])
		}
	}
}

// concurrent finds a handout beside as many leases as there may be: of those before it, which surely have not ended.
func (c *checker) concurrent(topic string, h *handout, before []*handout) {
	beside := []*op{h.op}
	for _, one := range before {
		if one.call.ID != h.call.ID && (one.claimed < h.claimed || one.claim == h.claim) && c.surelyHeld(topic, one, h) {
			beside = append(beside, one.op)
		}
	}
	if most := c.bounds.Limited[topic].Concurrency; len(beside) > most {
		c.violate(Limited, fmt.Sprintf("%s was handed out as one of %d leased messages of %s, of which %d may be", h.call.ID, len(beside), topic, most), beside...)
	}
}

// surelyHeld reports whether a lease had not ended before another handout.
func (c *checker) surelyHeld(topic string, held, h *handout) bool {
	return !c.leaseEnded(held, h) && c.isSteady(topic, held, h) && !slices.ContainsFunc(held.settles, func(s *op) bool {
		return s.call.Op != Extend && s.maybe() && s.from() <= h.latest()
	})
}

// isSteady reports whether no clock was set, nothing was forgotten, and no call stopped half way between two handouts.
func (c *checker) isSteady(topic string, first, last *handout) bool {
	from, to := first.at-doubt, last.latest()
	return !c.clock.jumped(from, to) && !c.undone(topic, from, to) &&
		!slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() && w.touches(from, to) })
}

// rated finds more handouts from the first of some on than a rate and its burst allow.
func (c *checker) rated(topic string, all []*handout) {
	limit, first := c.bounds.Limited[topic], all[0]
	for i, h := range all {
		ms := h.claimed - first.claimed + 1 // both are cut to the ms
		if n := i + 1; int64(n-limit.Burst)*1000 > ms*int64(limit.PerSecond) {
			if c.isSteady(topic, first, h) {
				c.violate(Rate, fmt.Sprintf("%d messages of %s were handed out in %d ms, at a rate of %d/s", n, topic, ms, limit.PerSecond), first.op, h.op)
			}
			return
		}
	}
}
