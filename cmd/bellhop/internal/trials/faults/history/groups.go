package history

import (
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A group is the messages that name it, and those that wait for it.
type group struct{ members, callbacks []*message }

// checkGroups checks what waits for groups.
func (c *checker) checkGroups() {
	for name, g := range c.groups() {
		for _, callback := range g.callbacks {
			for _, m := range g.members {
				c.tooSoon(name, callback, m)
			}
			c.missing(name, callback, g.members)
			for _, other := range g.callbacks {
				c.second(name, callback, other)
			}
		}
	}
}

// groups returns the groups by TOPIC:NAME.
func (c *checker) groups() map[string]*group {
	all := make(map[string]*group)
	of := func(name string) *group {
		if all[name] == nil {
			all[name] = new(group)
		}
		return all[name]
	}
	for _, m := range c.messages {
		if len(m.publishes) == 0 {
			continue
		}
		if p := m.publishes[0].call; p.Group != "" {
			g := of(record.Member(p.Topic, p.Group))
			g.members = append(g.members, m)
		}
		if name := m.publishes[0].call.AfterGroup; name != "" {
			of(name).callbacks = append(of(name).callbacks, m)
		}
	}
	return all
}

// tooSoon finds a callback that was handed out while a message was in its group for certain: which was handed out again later, acknowledged later, or is
// there at the end. A callback that was given a time comes by that.
func (c *checker) tooSoon(name string, callback, m *message) {
	if len(callback.handouts) == 0 || slices.ContainsFunc(callback.reschedules, (*op).maybe) || m.lives() != 1 || !m.publishes[0].ok() {
		return
	}
	h, goes := callback.handouts[0], callback.publishes[0].call.Go
	if c.undone(m.topic, -never, h.latest()) || goes && slices.ContainsFunc(m.requeues, (*op).maybe) {
		return
	}
	later := func(o *op, at int64) bool {
		return at > h.at+doubt && !c.clock.jumped(h.at, at) && !c.undone(m.topic, -never, at)
	}
	for _, one := range m.handouts {
		if later(one.op, one.at) {
			c.violate(GroupEarly, fmt.Sprintf("%s was handed out before %s of the group %s that it waits for", callback.member, m.member, name), h.op, one.op)
			return
		}
	}
	for _, s := range m.settles {
		if s.call.Op == Ack && s.ok() && later(s, s.from()) {
			c.violate(GroupEarly, fmt.Sprintf("%s was handed out before %s of the group %s that it waits for was acknowledged", callback.member, m.member, name), h.op, s)
			return
		}
	}
	if where := c.where(m); len(where) > 0 && !(goes && where[0] == "dead") && !c.undone(m.topic, -never, never) {
		c.violate(GroupEarly, fmt.Sprintf("%s was handed out, and %s of the group %s that it waits for is %s", callback.member, m.member, name, where[0]), h.op)
	}
}

// missing finds a callback that waits at the end, and nobody of its group does.
func (c *checker) missing(name string, callback *message, members []*message) {
	if c.drained == 0 || !slices.Contains(c.where(callback), "scheduled") {
		return
	}
	goes := callback.publishes[0].call.Go
	for _, m := range members {
		if where := c.where(m); len(where) > 0 && !(goes && where[0] == "dead") {
			return
		}
	}
	c.violate(GroupMissing, fmt.Sprintf("%s waits for the group %s, of which nobody is left", callback.member, name), callback.publishes...)
}

// second finds a callback that was accepted while another one of its group was there for certain, or had come.
func (c *checker) second(name string, first, second *message) {
	if first == second || len(first.publishes) != 1 || len(second.publishes) != 1 || slices.ContainsFunc(first.cancels, (*op).maybe) {
		return
	}
	p, q := first.publishes[0], second.publishes[0]
	if p.ok() && q.ok() && p.to() < q.from() && !c.undone(first.topic, -never, q.to()) {
		c.violate(TwoCallbacks, fmt.Sprintf("%s and %s both wait for the group %s", first.member, second.member, name), p, q)
	}
}
