package history

import (
	"fmt"
	"slices"
)

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
