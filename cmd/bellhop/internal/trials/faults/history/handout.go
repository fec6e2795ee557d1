package history

import (
	"fmt"
	"slices"
	"sort"
)

// ways is what may have returned a message after it was handed out, with the attempts that
// each way uses up.
type ways struct {
	some        bool
	least, most int
	requeued    bool // it may have died and been requeued, which resets its attempts
}

func (w *ways) add(attempts int) {
	if !w.some {
		*w = ways{true, attempts, attempts, w.requeued}
		return
	}
	w.least, w.most = min(w.least, attempts), max(w.most, attempts)
}

// handedOut checks each handout of a message against the one before.
func (c *checker) handedOut(m *message) {
	limit := c.limit(m)
	for i, h := range m.handouts {
		if limit > 0 && h.call.Attempt > limit {
			c.violate(Attempts, fmt.Sprintf("%s was handed out in attempt %d of %d", m.member, h.call.Attempt, limit), append(m.publishes, h.op)...)
			return
		}
		if i == 0 {
			c.first(m, h)
			continue
		}
		c.next(m, m.handouts[i-1], h)
	}
}

// limit returns the limit of attempts of a message, 0 if it is unknown.
func (c *checker) limit(m *message) int {
	limit := c.bounds.Attempts
	for _, p := range m.publishes {
		if p.call.Limit > 0 {
			limit = p.call.Limit
		}
	}
	return limit
}

// first checks the first handout.
func (c *checker) first(m *message, h *handout) {
	if most := 1 + c.unseen(m, h); h.call.Attempt < 1 || h.call.Attempt > most {
		c.violate(Attempts, fmt.Sprintf("%s was handed out for the first time, as attempt %d", m.member, h.call.Attempt), append(m.publishes, h.op)...)
	}
}

// next checks a handout against the one before it.
func (c *checker) next(m *message, before, h *handout) {
	if c.settled(before, Ack) != nil || c.rolledBack(m, before, h) {
		return // a case for Again, or nothing is certain
	}
	w := c.ways(m, before, h)
	unseen := c.unseen(m, h)
	if (w.requeued || m.lives() > 1) && h.call.Attempt >= 1 && h.call.Attempt <= 1+unseen {
		return
	}
	used := h.call.Attempt - before.call.Attempt
	ops := slices.Concat([]*op{before.op, h.op}, before.settles, m.requeues)
	switch {
	case !w.some && w.requeued:
		c.violate(Attempts, fmt.Sprintf("%s was requeued and handed out in attempt %d", m.member, h.call.Attempt), ops...)
	case !w.some:
		c.violate(Double, fmt.Sprintf("%s was handed out again, %d ms after it was leased until %d, but nothing gave it back",
			m.member, h.claimed-before.claimed, before.call.Receipt/1000), ops...)
	case used < w.least || used > w.most+unseen:
		c.violate(Attempts, fmt.Sprintf("%s was handed out in attempt %d and then in attempt %d, want %d to %d more",
			m.member, before.call.Attempt, h.call.Attempt, w.least, w.most+unseen), ops...)
	}
}

// rolledBack reports whether Redis may have forgotten an operation on which the next handout
// depends.
func (c *checker) rolledBack(m *message, before, h *handout) bool {
	if !c.undone(m.topic, before.at-doubt, h.latest()) {
		return false
	}
	if before.kept() || c.undone(m.topic, before.at-doubt, before.latest()) || c.undone(m.topic, h.at-doubt, h.latest()) {
		return true
	}
	return slices.ContainsFunc(m.all(), func(o *op) bool { return c.undone(m.topic, o.from(), min(o.to(), h.latest())) })
}

// ways returns what may have returned a message between two handouts.
func (c *checker) ways(m *message, before, h *handout) ways {
	var w ways
	died := false
	switch {
	case c.settled(before, Release) != nil, c.settled(before, Snooze) != nil:
		w.add(0)
	case c.settled(before, Bury) != nil:
		died = true
	case c.settled(before, Nack) != nil:
		switch c.settled(before, Nack).state() {
		case "dead":
			died = true
		case "dropped":
		default:
			w.add(1)
		}
	default:
		if c.leaseEnded(before, h) {
			w.add(1)
			if before.call.Handed { // it was not confirmed
				w.add(0)
			}
		}
		died = w.perhaps(before, h) || c.givenBack(&w, before, h)
	}
	w.requeued = (died || w.some) && slices.ContainsFunc(m.requeues, func(r *op) bool {
		return r.maybe() && r.from() <= h.latest() && r.to() >= before.earliest()
	})
	return w
}

// perhaps adds calls of unknown outcome that may have given a message back, and reports
// whether one may have buried it.
func (w *ways) perhaps(before, h *handout) (buried bool) {
	for _, s := range before.settles {
		if !s.maybe() || s.from() > h.latest() {
			continue
		}
		switch s.call.Op {
		case Nack:
			w.add(1)
		case Release, Snooze:
			w.add(0)
		case Bury:
			buried = true
		}
	}
	return buried
}

// givenBack adds unrecorded operations of others that own the lease. They give a message back
// when its handler failed or was stopped. Others in another process may do so at any time,
// when that process or a connection to it ends. givenBack reports whether they may have.
func (c *checker) givenBack(w *ways, before, h *handout) bool {
	if !before.kept() {
		return false
	}
	failed := before.ended() <= h.at+doubt && !before.ok()
	left := before.call.Target != "" && c.disturbed(before, h)
	if failed || left {
		w.add(0)
		w.add(1)
	}
	return failed || left
}

// disturbed reports whether a fault, the end of a process, or the end of the lease by the
// machine's clock falls between two handouts.
func (c *checker) disturbed(before, h *handout) bool {
	return c.struck(before.at-doubt, h.at+doubt) || h.at >= before.at+before.call.Lease*1000-doubt
}

// struck reports whether a fault, or the end of a process, falls into a period.
func (c *checker) struck(from, to int64) bool {
	return slices.ContainsFunc(c.windows, func(w window) bool { return !c.spares(w) && w.touches(from, to) }) ||
		slices.ContainsFunc(c.ends, func(o *op) bool { return o.from() >= from && o.from() <= to })
}

// leaseEnded reports whether the lease of a handout, with its extensions, may have expired by
// Redis's clock before the next one.
func (c *checker) leaseEnded(before, h *handout) bool {
	end := before.call.Receipt
	for range before.settles { // from receipt to receipt
		i := slices.IndexFunc(before.settles, func(s *op) bool {
			return s.call.Op == Extend && s.ok() && !c.forgot(s) && s.from() <= h.latest() && s.call.Was == end && s.end.Receipt != end
		})
		if i < 0 {
			break
		}
		end = before.settles[i].end.Receipt
	}
	end /= 1000
	for _, s := range before.settles { // an extension of unknown outcome may have shortened the lease
		if s.call.Op == Extend && (s.phase() == Unknown || s.ok() && c.forgot(s)) {
			end = min(end, c.clock.lowest(s.from(), h.at)/1000+s.call.Lease)
		}
	}
	if h.claimed >= end {
		return true
	}
	if !c.clock.jumped(before.at, h.at) {
		return false
	}
	if before.kept() { // others may have extended it at any time
		end = min(end, c.clock.lowest(before.at, h.at)/1000+before.call.Lease)
	}
	return c.clock.highest(before.at, h.at)/1000 >= end
}

// unseen returns how many unrecorded claims of a message may precede a handout: claims of
// unknown outcome, and claims during a fault that the claimer may have retried. If others
// claim, untold, it returns a large number.
func (c *checker) unseen(m *message, h *handout) int {
	const many = 1 << 30
	switch {
	case c.kept[m.topic] && c.untold(m, h.latest()):
		return many
	case c.kept[m.topic]:
		return 0
	}
	open := c.open[m.topic] // in the order of their calls
	n := sort.Search(len(open), func(i int) bool { return open[i].from() > h.latest() })
	if c.mayHide(h.claim) {
		n-- // itself
	}
	return n
}
