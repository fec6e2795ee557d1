package history

import (
	"fmt"
	"slices"
	"time"
)

// checkCarriers checks the beats.
func (c *checker) checkCarriers() {
	var last *op
	for _, beat := range c.beats {
		if last != nil && beat.epoch() < last.epoch() && !c.undone(-never, beat.from()) {
			c.violate(Mover, fmt.Sprintf("carrier %d beat after carrier %d was elected", beat.epoch(), last.epoch()), last, beat)
		}
		last = beat
	}
	for _, o := range c.ends {
		c.takeover(string(o.call.Op), o)
	}
	for _, o := range c.faults {
		c.takeover(o.call.Kind, o)
	}
}

// takeover checks the time until the next carrier's first beat, unless another fault
// interferes.
func (c *checker) takeover(kind string, end *op) {
	epoch := end.epoch()
	if epoch == 0 {
		return
	}
	i := slices.IndexFunc(c.beats, func(b *op) bool { return b.epoch() > epoch && b.from() > end.from() })
	bound := c.bounds.Takeover[kind]
	if i < 0 {
		if late := end.from() + bound.Microseconds(); bound > 0 && c.drained > late && !c.troubled(end, late) && !c.continued(end, late) {
			c.violate(Takeover, fmt.Sprintf("no carrier took over from carrier %d, which met %s", epoch, kind), end)
		}
		return
	}
	next := c.beats[i]
	if c.troubled(end, next.from()) {
		return
	}
	took := time.Duration(next.from()-end.from()) * time.Microsecond
	c.stats.Takeover[kind] = append(c.stats.Takeover[kind], took)
	if bound > 0 && took > bound {
		c.violate(Takeover, fmt.Sprintf("it took %v from the end of carrier %d, by %s, to the beat of the next one; the bound is %v", took, epoch, kind, bound), end, next)
	}
}

// continued reports whether a carrier beat again before a time, after its fault was healed:
// it was stopped for less than its lease.
func (c *checker) continued(end *op, before int64) bool {
	i := slices.IndexFunc(c.windows, func(w window) bool { return w.op == end })
	return i >= 0 && slices.ContainsFunc(c.beats, func(b *op) bool {
		return b.epoch() == end.epoch() && b.from() > c.windows[i].to && b.from() <= before
	})
}

// troubled reports whether another fault may have effects between the end of a carrier and a time.
func (c *checker) troubled(end *op, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool {
		felt := w.to + c.recovery(w.call.Kind).Microseconds()
		return w.op != end && w.call.Target != end.call.Target && w.from() <= to && felt >= end.from()
	})
}
