package history

import "slices"

// doubt is the error, in µs, when two clocks are compared.
const doubt = 5_000

// A clock relates Redis's clock to the machine's by an offset, which faults change.
type clock []era

// An era is a period by the machine's clock, in µs, in which Redis's clock may have had an
// offset. Two eras overlap while the clock is being set.
type era struct {
	from, to, offset int64
}

// newClock returns the clock that results from faults with an offset and their heals.
func newClock(changes []*op) clock {
	slices.SortFunc(changes, func(a, b *op) int { return int(a.from() - b.from()) })
	c := clock{{from: -never, to: never}}
	for _, o := range changes {
		if !o.maybe() {
			continue
		}
		c[len(c)-1].to = o.to()
		c = append(c, era{from: o.from(), to: never, offset: o.offset() * 1000})
	}
	return c
}

// machine returns the last time by the machine's clock, up to latest, at which Redis's clock
// showed a time. All are in µs.
func (c clock) machine(redis, latest int64) int64 {
	for _, e := range slices.Backward(c) {
		at := redis - e.offset
		if at >= e.from-doubt && at <= e.to+doubt && at <= latest+doubt {
			return at
		}
	}
	return latest
}

// jumped reports whether the clock was set in a period of the machine's clock.
func (c clock) jumped(from, to int64) bool {
	for i := 1; i < len(c); i++ {
		if c[i].from-doubt <= to && c[i-1].to+doubt >= from {
			return true
		}
	}
	return false
}

// highest returns the latest time that Redis's clock may have shown in a period of the machine's clock.
func (c clock) highest(from, to int64) int64 {
	highest := int64(-never)
	for _, e := range c {
		if e.from-doubt <= to && e.to+doubt >= from {
			highest = max(highest, min(e.to, to)+e.offset+doubt)
		}
	}
	return highest
}

// lowest returns the earliest such time.
func (c clock) lowest(from, to int64) int64 {
	lowest := int64(never)
	for _, e := range c {
		if e.from-doubt <= to && e.to+doubt >= from {
			lowest = min(lowest, max(e.from, from)+e.offset-doubt)
		}
	}
	return lowest
}

// A window is a fault from its call until it was healed, by the machine's clock in µs.
type window struct {
	*op
	to     int64
	forget int64 // operations confirmed from here to the end of the fault's call may be forgotten; never: none
	shards []int // that the fault concerns; empty: all
}

// newWindow returns the window of a fault and its heal, which may be nil.
func newWindow(fault, heal *op) window {
	w := window{op: fault, to: never, forget: never}
	w.shards, _ = numbers(either(fault, func(r *Record) string { return r.Shards })) // checked as it was read
	if heal != nil && heal.phase() == OK {
		w.to = heal.to()
	}
	if loss := fault.loss(); loss > 0 {
		w.forget = fault.from() - loss*1000
	}
	return w
}

// touches reports whether a period intersects the window.
func (w *window) touches(from, to int64) bool { return w.from() <= to && w.to >= from }

// forgets reports whether what happened in a period may be forgotten. If a replica takes
// over, the former master answers until the heal.
func (w *window) forgets(from, to int64) bool {
	until := w.op.to()
	if w.waited() {
		until = w.to
	}
	return w.forget != never && w.forget <= to && until >= from
}

// hits reports whether the fault hits a shard.
func (w *window) hits(shard int) bool { return len(w.shards) == 0 || slices.Contains(w.shards, shard) }
