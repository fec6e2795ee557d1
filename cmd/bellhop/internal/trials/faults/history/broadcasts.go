package history

import (
	"fmt"
	"slices"
	"sort"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// checkBroadcasts checks which broadcasts were sent, and which of them each listener received.
func (c *checker) checkBroadcasts(sent []sending) {
	c.sentOnce(sent)
	c.sentInOrder(sent)
	c.unsent(sent)
	names := make(map[string][]*listener)
	for _, h := range c.listeners {
		c.readExpired(h)
		if name := h.listen.call.Name; name != "" {
			names[name] = append(names[name], h)
			continue
		}
		c.receivedInOrder(h)
		c.missed(sent, h)
	}
	for _, listeners := range names {
		if len(listeners) == 1 && listeners[0].listen.call.Count == 1 {
			c.handledInOrder(listeners[0])
		}
		c.missed(sent, listeners...)
	}
	c.falseGaps(sent)
	if c.final.Streams {
		c.checkStored(sent)
	}
}

// sentOnce finds broadcasts that were not published, or were sent early or twice.
func (c *checker) sentOnce(sent []sending) {
	times := make(map[*message]int)
	for _, s := range sent {
		m := s.message
		if m == nil || m.lives() == 0 {
			c.violate(Unpublished, fmt.Sprintf("the broadcast %s of %s at %d was sent, but no publish of it may have happened", s.ID, s.Topic, s.Position))
			continue
		}
		if !s.forgot && !s.halfway {
			times[m]++
		}
		if due := m.firstDue(); due > 0 && s.Position < due*1000 && !c.undone(s.Topic, -never, s.at) {
			c.violate(Early, fmt.Sprintf("the broadcast %s was sent %d µs before it was due", m.member, due*1000-s.Position), m.all()...)
		}
		if times[m] > m.lives() {
			c.violate(Twice, fmt.Sprintf("the broadcast %s was sent again, at %d", m.member, s.Position), m.all()...)
		}
		c.sentAndCancelled(m, s)
		if end, known := m.expiry(); known && s.Position >= (end+1)*1000 && !s.forgot && !c.undone(s.Topic, -never, s.at) && len(c.clock) == 1 {
			c.violate(Expired, fmt.Sprintf("the broadcast %s was sent %d ms after its time to live", m.member, s.Position/1000-end), m.all()...)
		}
	}
}

// readSlack is how long a listener may take from the look at the clock to its handler, in µs.
const readSlack = 500_000

// readExpired finds broadcasts that a listener received after they had expired, unless it was
// stopped then, or gets them from others, whose connection to it may have been slow.
func (c *checker) readExpired(h *listener) {
	for _, o := range h.received {
		m := c.messages[record.Member(o.call.Topic, o.call.ID)]
		if o.call.Op != Receive || m == nil || len(c.clock) > 1 || c.undone(m.topic, -never, never) {
			continue
		}
		end, known := m.expiry()
		excused := slices.ContainsFunc(c.windows, func(w window) bool {
			return (w.call.Target == o.call.Process || o.call.Target != "") && w.touches(end*1000, o.from())
		})
		if known && !excused && o.from() > end*1000+readSlack {
			c.violate(Expired, fmt.Sprintf("%s received %s %d ms after its time to live", h.name(), m.member, o.from()/1000-end), append(slices.Clone(m.publishes), o)...)
		}
	}
}

// sentAndCancelled finds a broadcast that was sent although its cancel was acknowledged. A
// cancel before the sending prevents it, and one after the sending is refused.
func (c *checker) sentAndCancelled(m *message, s sending) {
	for _, cancel := range m.cancels {
		if cancel.ok() && !c.forgot(cancel) && m.lives() == 1 && !s.forgot && !s.halfway {
			c.violate(Cancelled, fmt.Sprintf("the broadcast %s was sent, at %d, though its cancellation was acknowledged", m.member, s.Position), m.all()...)
		}
	}
}

// firstDue returns the earliest due time that a message may have had; 0 if it is unknown.
func (m *message) firstDue() int64 {
	first := int64(never)
	for _, w := range slices.Concat(m.publishes, m.reschedules) {
		if w.maybe() {
			first = min(first, w.due())
		}
	}
	return first
}

// sentInOrder finds broadcasts that were sent before others of their shard that were due
// earlier and had been acknowledged by then. If the clock jumped, positions do not show that.
func (c *checker) sentInOrder(sent []sending) {
	if len(c.clock) > 1 {
		return
	}
	for shard := range max(c.bounds.Shards, 1) {
		c.sentInTurn(slices.DeleteFunc(slices.Clone(sent), func(s sending) bool { return c.bounds.shardOf(s.Topic) != shard }))
	}
}

// sentInTurn is sentInOrder for one shard.
func (c *checker) sentInTurn(sent []sending) {
	var ahead []sending // of those sent up to now, each due earlier than the ones before it
	again := make(map[*message]bool)
	for _, s := range sent {
		if s.message == nil || s.forgot || !s.message.plain() || again[s.message] {
			continue
		}
		again[s.message] = s.halfway
		p := s.message.publishes[0]
		i := sort.Search(len(ahead), func(i int) bool { return ahead[i].at > p.to()+doubt })
		if i < len(ahead) && ahead[i].message.publishes[0].due() > p.due() {
			c.violate(Order, fmt.Sprintf("the broadcast %s was sent at %d, before %s, which was due earlier", ahead[i].message.member, ahead[i].Position, s.message.member),
				ahead[i].message.publishes[0], p)
		}
		for len(ahead) > 0 && ahead[len(ahead)-1].message.publishes[0].due() <= p.due() {
			ahead = ahead[:len(ahead)-1]
		}
		ahead = append(ahead, s)
	}
}

// unsent finds acknowledged broadcasts that were not sent and are not there.
func (c *checker) unsent(sent []sending) {
	was := make(map[*message]bool, len(sent))
	for _, s := range sent {
		was[s.message] = true
	}
	for _, m := range c.messages {
		if !m.broadcast || was[m] || len(c.where(m)) > 0 || slices.ContainsFunc(m.cancels, (*op).maybe) {
			continue
		}
		for _, p := range m.publishes {
			if p.ok() && !c.forgot(p) && p.due()*1000 > c.final.Trimmed[m.topic] && !c.mayExpire(m, never) {
				c.violate(Lost, "the broadcast "+m.member+" was acknowledged, and is neither sent nor there", m.all()...)
				break
			}
		}
	}
}

// receivedInOrder finds broadcasts that a listener without a name received twice, or out of
// the order of their shard.
func (c *checker) receivedInOrder(h *listener) {
	lasts := make(map[int]*op)
	for _, o := range h.received {
		if o.call.Op != Receive {
			continue
		}
		shard := c.bounds.shardOf(o.call.Topic)
		last := lasts[shard]
		if last != nil && o.call.Position == last.call.Position && o.call.Topic == last.call.Topic {
			c.violate(Twice, fmt.Sprintf("%s received %s twice", h.name(), o.call.ID), last, o)
		} else if last != nil && o.call.Position < last.call.Position {
			c.violate(c.behind(h, o), fmt.Sprintf("%s received %s after %s, which was sent later", h.name(), o.call.ID, last.call.ID), last, o)
			continue
		}
		lasts[shard] = o
	}
}

// behind returns the rule that a broadcast received too late breaks: Twice if it was received before, too, else Order.
func (c *checker) behind(h *listener, o *op) Rule {
	for _, other := range h.received {
		if other == o {
			return Order
		}
		if other.call.Op == Receive && other.call.Position == o.call.Position && other.call.Topic == o.call.Topic {
			return Twice
		}
	}
	return Order
}

// handledInOrder is for a named listener with one process of concurrency 1: it handles first
// attempts in the order of their topic.
func (c *checker) handledInOrder(h *listener) {
	last := make(map[string]*op)
	for _, o := range h.received {
		if o.call.Op != Receive || o.call.Attempt > 1 {
			continue
		}
		before := last[o.call.Topic]
		if before != nil && o.call.Position < before.call.Position {
			c.violate(Order, fmt.Sprintf("%s received %s after %s, which was sent later", h.name(), o.call.ID, before.call.ID), before, o)
		}
		last[o.call.Topic] = o
	}
}

func (h *listener) name() string {
	if h.listen.call.Name != "" {
		return h.listen.call.Name
	}
	return h.listen.call.Process + " " + h.listen.call.Listener
}

// missed finds broadcasts that one listener without a name, or all of a name, did not
// receive. Of each shard it considers those sent after they began to listen, up to the last
// that they received or, if one of them lived to the end, until the harness had waited for
// all. If no process of a name lived, any broadcast may still be on its way.
func (c *checker) missed(sent []sending, listeners ...*listener) {
	first, until, alive := slices.Clone(listeners[0].starts), make(map[int]int64), false
	received := make(map[Entry]bool)
	var gaps []*op
	for _, h := range listeners {
		for shard, start := range h.starts {
			first[shard] = min(first[shard], start)
		}
		alive = alive || c.lived(h)
		for _, o := range h.received {
			shard := c.bounds.shardOf(o.call.Topic)
			until[shard] = max(until[shard], o.call.Position)
			if o.call.Op == Gap {
				gaps = append(gaps, o)
			} else {
				received[Entry{o.call.Topic, o.call.ID, o.call.Position}] = true
			}
		}
	}
	named := listeners[0].listen.call.Name != ""
	if named && !alive {
		return
	}
	for _, s := range sent {
		shard := c.bounds.shardOf(s.Topic)
		due := s.Position > first[shard] && (s.Position <= until[shard] && !named || alive && s.at < c.drained-doubt)
		if due && !s.forgot && listeners[0].pattern.Match(s.Topic) && !received[s.Entry] && !gapped(gaps, s.Entry) && !c.mayExpire(s.message, c.last) {
			c.violate(Missed, fmt.Sprintf("%s did not receive %s of %s, sent at %d", listeners[0].name(), s.ID, s.Topic, s.Position), listeners[0].listen)
		}
	}
}

// gapped reports whether a broadcast is in one of the reported gaps.
func gapped(gaps []*op, e Entry) bool {
	return slices.ContainsFunc(gaps, func(g *op) bool {
		return g.call.Topic == e.Topic && e.Position > g.call.Was && e.Position <= g.call.Position
	})
}

// lived reports whether the process of a listener lived until the harness had waited for all.
func (c *checker) lived(h *listener) bool {
	return c.drained > 0 && h.listen.from() < c.drained && !slices.ContainsFunc(c.ends, func(o *op) bool {
		return o.call.Target == h.listen.call.Process && o.from() < c.drained
	})
}

// falseGaps finds reported gaps with broadcasts that are still there.
func (c *checker) falseGaps(sent []sending) {
	kept := make(map[Entry]bool, len(c.final.Logs))
	for _, e := range c.final.Logs {
		kept[e] = true
	}
	for _, h := range c.listeners {
		for _, o := range h.received {
			if o.call.Op != Gap || c.undone(o.call.Topic, -never, o.from()) {
				continue
			}
			from := sort.Search(len(sent), func(i int) bool { return sent[i].Position > o.call.Was })
			for _, s := range sent[from:] {
				if s.Position > o.call.Position {
					break
				}
				if s.Topic == o.call.Topic && kept[s.Entry] {
					c.violate(FalseGap, fmt.Sprintf("%s was told of a gap with %s, which is there", h.name(), s.ID), o)
					break
				}
			}
		}
	}
}

// checkStored compares the contents of a JetStream stream with the broadcasts that were sent.
func (c *checker) checkStored(sent []sending) {
	stored, again := make(map[string]*op), make(map[*message]bool)
	for _, s := range sent {
		again[s.message] = again[s.message] || s.halfway
	}
	for _, o := range c.stored {
		member := record.Member(o.call.Topic, o.call.ID)
		m := c.messages[member]
		switch before := stored[member]; {
		case m == nil || m.lives() == 0:
			c.violate(Stored, "the broadcast "+member+" is in the stream, but no publish of it may have happened", o)
		case before != nil && m.lives() == 1 && !again[m] && !c.undone(m.topic, m.publishes[0].from(), never): // else it may have been sent twice
			c.violate(Stored, "the broadcast "+member+" is in the stream twice", before, o)
		}
		stored[member] = o
	}
	for _, s := range sent {
		if s.message != nil && stored[s.message.member] == nil && !s.forgot && !c.mayExpire(s.message, c.last) {
			c.violate(Stored, fmt.Sprintf("the broadcast %s, sent at %d, is not in the stream", s.message.member, s.Position), s.message.publishes...)
		}
	}
}
