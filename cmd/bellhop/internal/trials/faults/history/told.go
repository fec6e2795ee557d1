package history

import (
	"fmt"
	"slices"
)

// untold reports whether a message of a topic of Told may have been handed out, and no handler
// begun: another fault, the end of a process, or a machine that stood still fell into a period.
func (c *checker) untold(m *message, to int64) bool {
	from := int64(never)
	for _, p := range m.publishes {
		from = min(from, p.from())
	}
	return !slices.Contains(c.bounds.Told, m.topic) || c.stood(from, to) > 0 ||
		slices.ContainsFunc(c.windows, func(w window) bool {
			return !c.spares(w) && w.from() <= to+doubt && c.felt(w) >= from-doubt
		}) ||
		slices.ContainsFunc(c.ends, func(o *op) bool { return o.from() >= from-doubt && o.from() <= to+doubt })
}

// spares reports whether a fault gives back no message that a handler has.
func (c *checker) spares(w window) bool { return slices.Contains(c.bounds.Spares, w.call.Kind) }

// died finds dead letters that no handler used up the attempts of, nor buried.
func (c *checker) died(m *message) {
	if !slices.Contains(c.where(m), "dead") || slices.ContainsFunc(m.publishes, func(p *op) bool { return p.call.TTL > 0 }) {
		return
	}
	at := c.clock.machine(c.final.Dead[m.topic][m.member]*1000, c.last)
	if c.untold(m, at) {
		return
	}
	failed := 0
	for _, h := range m.handouts {
		switch {
		case h.state() == "dead":
			return
		case !h.ok():
			failed++
		}
	}
	if limit := c.limit(m); failed < limit {
		c.violate(Died, fmt.Sprintf("%s is dead, and handlers failed %d of %d times", m.member, failed, limit), m.all()...)
	}
}
