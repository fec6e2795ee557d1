package history

import (
	"slices"
	"time"
)

// promised are the operations that are confirmed only when replicas have them, if calls wait for replicas.
var promised = map[Op]bool{
	Publish: true, Broadcast: true, Cancel: true, CancelNext: true, Reschedule: true, Requeue: true, Ack: true, Nack: true, Snooze: true, Bury: true,
}

// anyTopic stands for all topics, of all shards.
const anyTopic = ""

// undone reports whether Redis may have forgotten what happened to a topic in a period. An
// empty one stands for any.
func (c *checker) undone(topic string, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return c.concerns(w, topic) && w.forgets(from, to) })
}

// undoneIn is undone for a shard.
func (c *checker) undoneIn(shard int, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return w.hits(shard) && w.forgets(from, to) })
}

// promisedUndone is undone for promised operations.
func (c *checker) promisedUndone(topic string, from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return !w.waited() && c.concerns(w, topic) && w.forgets(from, to) })
}

// forgot reports whether Redis may have forgotten an operation.
func (c *checker) forgot(o *op) bool {
	if promised[o.call.Op] {
		return c.promisedUndone(o.call.Topic, o.from(), o.to())
	}
	return c.undone(o.call.Topic, o.from(), o.to())
}

// concerns reports whether a fault hits the shard of a topic.
func (c *checker) concerns(w window, topic string) bool {
	return topic == anyTopic || w.hits(c.bounds.shardOf(topic))
}

// stood returns for how long the machine stood still in a period, in µs.
func (c *checker) stood(from, to int64) int64 {
	if c.bounds.Stood == nil {
		return 0
	}
	return c.bounds.Stood(time.UnixMicro(from), time.UnixMicro(to)).Microseconds()
}

// felt returns until when a fault may have effects.
func (c *checker) felt(w window) int64 {
	recovery := c.recovery(w.call.Kind).Microseconds()
	if w.to == never {
		return never
	}
	return w.to + recovery + c.stood(w.to, w.to+recovery)
}

// arrives returns the latest time at which a call may have happened, though its caller gave it up: what a cut link holds arrives when
// that is healed.
func (c *checker) arrives(o *op) int64 {
	latest := o.ended()
	for _, w := range c.windows {
		if w.touches(o.from()-doubt, latest+doubt) {
			latest = max(latest, c.felt(w))
		}
	}
	return latest
}

// recovery returns how long after its heal a fault may have effects.
func (c *checker) recovery(kind string) time.Duration {
	if d, known := c.bounds.After[kind]; known {
		return d
	}
	return c.bounds.Recovery
}

// struck reports whether a fault, or the end of a process, falls into a period.
func (c *checker) struck(from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return !c.spares(w) && w.touches(from, to) }) ||
		slices.ContainsFunc(c.ends, func(o *op) bool { return o.from() >= from && o.from() <= to })
}

// spares reports whether a fault gives back no message that a handler has.
func (c *checker) spares(w window) bool { return slices.Contains(c.bounds.Spares, w.call.Kind) }

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

// mayHide reports whether a claim may have taken more messages than recorded: its outcome is
// unknown, or the claimer may have retried it during a fault.
func (c *checker) mayHide(claim *op) bool {
	return claim.phase() == Unknown || slices.ContainsFunc(c.windows, func(w window) bool {
		return w.touches(claim.from()-doubt, claim.to()+doubt)
	})
}
