package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// checkOrder checks the order of messages without keys in topics with one worker of concurrency 1, but of those that come with a group.
func (c *checker) checkOrder() {
	for _, topic := range c.bounds.Ordered {
		var handled []*message // in the order of their first handouts
		for _, m := range c.messages {
			if m.topic == topic && m.key == "" && len(m.handouts) > 0 && m.plain() && m.publishes[0].call.AfterGroup == "" {
				handled = append(handled, m)
			}
		}
		slices.SortFunc(handled, func(a, b *message) int { return cmp.Compare(a.handled(), b.handled()) })
		for i, m := range handled {
			c.overtaken(m, handled[:i])
		}
	}
}

// handled returns when a message was first handed out.
func (m *message) handled() int64 { return firstOut(m).from() }

func firstOut(m *message) *handout {
	return slices.MinFunc(m.handouts, func(a, b *handout) int { return cmp.Compare(a.from(), b.from()) })
}

// overtaken finds a message that was handed out before another one of its topic that was due
// earlier and had been published before. It skips a message first seen in a later attempt,
// or, by Redis's clock, a second after it was published if there was a fault meanwhile, since
// a claim or a hand-over that was not recorded may have taken it before.
func (c *checker) overtaken(m *message, before []*message) {
	p, first := m.publishes[0], firstOut(m)
	passed := c.clock.highest(first.from(), first.from()) - c.clock.lowest(p.to(), p.to())
	lapsed := passed >= (record.HandoverLease+record.HandoverSpare).Microseconds() && c.struck(p.from(), first.from())
	if first.call.Attempt != 1 || lapsed || c.undone(m.topic, p.from(), first.from()) {
		return
	}
	for _, other := range before {
		if q := other.publishes[0]; q.from() > p.to() && q.due() > p.due() {
			c.violate(Order, fmt.Sprintf("%s was handed out before %s, which was due %d ms earlier and had been published before it",
				other.member, m.member, q.due()-p.due()), p, q, firstOut(other).op, first.op)
			return
		}
	}
}
