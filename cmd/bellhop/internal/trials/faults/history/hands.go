package history

import (
	"cmp"
	"fmt"
	"slices"
)

// A taker is a process that takes only so many messages of a topic at a time.
type taker struct{ process, topic string }

// give files what each taker was given, in order, and the periods in which a topic's takers had no hand free.
func (c *checker) give() {
	for _, m := range c.messages {
		for _, h := range m.handouts {
			if h.call.Hands > 0 {
				who := taker{h.call.Process, m.topic}
				c.given[who] = append(c.given[who], h)
			}
		}
	}
	changes := make(map[string][]change)
	for who, all := range c.given {
		slices.SortFunc(all, func(a, b *handout) int { return cmp.Compare(c.since(a), c.since(b)) })
		first, last := all[0], c.since(all[len(all)-1])
		these := []change{{c.since(first), first.call.Hands, 1}, {last, -first.call.Hands, -1}}
		for _, h := range all {
			these = append(these, change{c.since(h), -1, 0}, change{min(h.ended(), last), 1, 0})
		}
		changes[who.topic] = append(changes[who.topic], these...)
	}
	for topic, these := range changes {
		c.full[topic] = full(these)
	}
}

// A change is by how many the free hands of a topic's takers change at a time, and these themselves. A taker has hands from when it is
// given its first message until it is given its last one.
type change struct {
	at           int64
	free, takers int
}

// A span is a period by the machine's clock, in µs.
type span struct{ from, to int64 }

// full returns the periods in which there were takers, and none had a hand free.
func full(changes []change) (all []span) {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	free, takers := 0, 0
	for i, now := range changes[:len(changes)-1] {
		free, takers = free+now.free, takers+now.takers
		if next := changes[i+1]; free <= 0 && takers > 0 && next.at > now.at {
			all = append(all, span{now.at, next.at})
		}
	}
	return all
}

// busy returns for how long, in a period, a message had to wait for a hand while the machine did not stand still.
func (c *checker) busy(topic string, from, to int64) (sum int64) {
	for _, s := range c.full[topic] {
		if from, to := max(s.from, from), min(s.to, to); from < to {
			sum += max(to-from-c.stood(from, to), 0)
		}
	}
	return sum
}

// checkHands finds processes that were given more messages of a topic at a time than they
// take. A message is in hand from the time at which it was leased, before its handler
// begins, until the handler ended.
func (c *checker) checkHands() {
	for who, all := range c.given {
		var held []*handout
		for _, h := range all {
			held = append(slices.DeleteFunc(held, func(o *handout) bool { return o.ended() <= c.since(h)+doubt }), h)
			if len(held) > h.call.Hands {
				ops := make([]*op, len(held))
				for i, o := range held {
					ops[i] = o.op
				}
				c.violate(Hands, fmt.Sprintf("%s had %d messages of %s at a time, and takes %d", who.process, len(held), who.topic, h.call.Hands), ops...)
				break
			}
		}
	}
}

// since returns when a handler's message was leased, by the machine's clock; when the handler began, if Redis's clock was set in between.
func (c *checker) since(h *handout) int64 {
	if c.clock.jumped(h.at, h.from()) {
		return h.from()
	}
	return h.at
}
