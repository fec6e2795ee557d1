package history

import (
	"fmt"
	"slices"
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

// first checks the first handout.
func (c *checker) first(m *message, h *handout) {
	if most := 1 + c.unseen(m, h); h.call.Attempt < 1 || h.call.Attempt > most {
		c.violate(Attempts, fmt.Sprintf("%s was handed out for the first time, as attempt %d", m.member, h.call.Attempt), append(m.publishes, h.op)...)
	}
}

// next checks a handout against the one before it.
func (c *checker) next(m *message, before, h *handout) {
	if c.settled(before, Ack) != nil || c.rolledBack(m, before, h) || c.halfCopied(m, before.at, before.at) {
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
		return r.maybe() && r.from() <= h.latest() && r.to() >= before.at
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
	again := h.call.Webhook != "" && h.call.Receipt == before.call.Receipt // a kept connection was closed without an answer
	failed := (again || before.ended() <= h.at+doubt) && !before.ok()
	left := before.call.Target != "" && c.disturbed(before, h)
	if failed || left {
		w.add(0)
		w.add(1)
	}
	return failed || left
}
