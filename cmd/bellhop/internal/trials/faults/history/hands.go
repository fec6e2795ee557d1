package history

import (
	"cmp"
	"fmt"
	"slices"
)

// checkHands finds processes that were given more messages of a topic at a time than they
// take. A message is in hand from the time at which it was leased, before its handler
// begins, until the handler ended.
func (c *checker) checkHands() {
	type taker struct{ process, topic string }
	given := make(map[taker][]*handout)
	for _, m := range c.messages {
		for _, h := range m.handouts {
			if h.call.Hands > 0 {
				who := taker{h.call.Process, m.topic}
				given[who] = append(given[who], h)
			}
		}
	}
	for who, all := range given {
		slices.SortFunc(all, func(a, b *handout) int { return cmp.Compare(c.since(a), c.since(b)) })
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
