package history

import (
	"fmt"
	"slices"
	"time"
)

// checkCarriers checks the beats of each shard.
func (c *checker) checkCarriers() {
	for shard, beats := range c.beats {
		c.moversInTurn(shard, beats)
	}
	for _, o := range c.ends {
		c.takeovers(string(o.call.Op), o)
	}
	for _, o := range c.faults {
		c.takeovers(o.call.Kind, o)
	}
}

// moversInTurn finds beats of a shard's carrier after a later one was elected.
func (c *checker) moversInTurn(shard int, beats []*op) {
	var last *op
	for _, beat := range beats {
		if last != nil && beat.epoch() < last.epoch() && !c.undoneIn(shard, -never, beat.from()) {
			c.violate(Mover, fmt.Sprintf("carrier %d beat after carrier %d was elected", beat.epoch(), last.epoch()), last, beat)
		}
		last = beat
	}
}

// takeovers checks the end of each term of a carrier.
func (c *checker) takeovers(kind string, end *op) {
	for _, t := range end.terms() {
		c.takeover(kind, end, t)
	}
}

// takeover checks the time until the next carrier's first beat, unless another fault
// interferes, or the carrier goes on in time.
func (c *checker) takeover(kind string, end *op, t term) {
	beats, bound, began := c.beats[t.shard], c.bounds.Takeover[kind], end.from()
	if end.end != nil && slices.Contains(c.bounds.Restarts, kind) { // until then nobody can be elected
		began = end.ended()
	}
	late := began + bound.Microseconds()
	if c.continued(end, t, late) {
		return
	}
	i := slices.IndexFunc(beats, func(b *op) bool { return b.epoch() > t.epoch && b.from() > end.from() })
	if i < 0 {
		if bound > 0 && c.drained > late+c.stood(began, c.drained) && !c.troubled(end, t, late) {
			c.violate(Takeover, fmt.Sprintf("no carrier took over from carrier %d, which met %s", t.epoch, kind), end)
		}
		return
	}
	next := beats[i]
	if slices.Contains(c.bounds.Parting, kind) {
		for _, b := range beats[:i] {
			if b.epoch() == t.epoch {
				began = max(began, b.from())
			}
		}
	}
	if c.troubled(end, t, next.from()) {
		return
	}
	took := time.Duration(max(next.from()-began, 0)) * time.Microsecond
	c.stats.Takeover[kind] = append(c.stats.Takeover[kind], took)
	if bound > 0 && took > bound+time.Duration(c.stood(began, next.from()))*time.Microsecond {
		c.violate(Takeover, fmt.Sprintf("it took %v from the end of carrier %d, by %s, to the beat of the next one; the bound is %v", took, t.epoch, kind, bound), end, next)
	}
}

// continued reports whether a carrier beat again before a time, after its fault was healed:
// it was stopped for less than its lease.
func (c *checker) continued(end *op, t term, before int64) bool {
	i := slices.IndexFunc(c.windows, func(w window) bool { return w.op == end })
	return i >= 0 && slices.ContainsFunc(c.beats[t.shard], func(b *op) bool {
		return b.epoch() == t.epoch && b.from() > c.windows[i].to && b.from() <= before
	})
}

// troubled reports whether another fault may have effects between the end of a carrier and a time.
func (c *checker) troubled(end *op, t term, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool {
		return w.hits(t.shard) && w.op != end && w.call.Target != end.call.Target && w.from() <= to && c.felt(w) >= end.from()
	})
}
