package history

import (
	"slices"
	"sort"
)

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

// settled returns the call that settled a handout in a way for certain, or nil.
func (c *checker) settled(h *handout, way Op) *op {
	if way == Ack && h.call.Now && h.claim.ok() && !c.forgot(h.claim) {
		return h.claim
	}
	for _, s := range h.settles {
		if s.call.Op == way && s.ok() && !c.forgot(s) {
			return s
		}
	}
	return nil
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

// unseen returns how many unrecorded claims of a message may precede a handout.
func (c *checker) unseen(m *message, h *handout) int {
	n := c.unseenUntil(m, h.latest())
	if !c.kept[m.topic] && c.mayHide(h.claim) {
		n-- // itself
	}
	return n
}

// unseenUntil returns how many unrecorded claims of a message there may be up to a time: claims of
// unknown outcome, and claims during a fault that the claimer may have retried. If others
// claim, untold, it returns a large number.
func (c *checker) unseenUntil(m *message, to int64) int {
	const many = 1 << 30
	switch {
	case c.kept[m.topic] && c.untold(m, to):
		return many
	case c.kept[m.topic]:
		return 0
	}
	open := c.open[m.topic] // in the order of their calls
	return sort.Search(len(open), func(i int) bool { return open[i].from() > to })
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

// disturbed reports whether a fault, the end of a process, or the end of the lease by the
// machine's clock falls between two handouts.
func (c *checker) disturbed(before, h *handout) bool {
	return c.struck(before.at-doubt, h.at+doubt) || h.at >= before.at+before.call.Lease*1000-doubt
}
