package history

import (
	"fmt"
	"slices"
)

// stops reports whether a call marked a leased message for certain, which is cancelled when its lease ends.
func (o *op) stops() bool { return o.call.Stop && o.ok() && o.state() == "leased" }

// stopped finds calls on a lease that succeeded although its message was to be cancelled: an extension, and what gave the message back.
func (c *checker) stopped(m *message) {
	if m.lives() > 1 {
		return
	}
	for _, cancel := range m.cancels {
		if !cancel.stops() || c.forgot(cancel) {
			continue
		}
		for _, s := range m.settles {
			if !s.ok() || s.from() <= cancel.to() {
				continue
			}
			switch state := s.state(); {
			case s.call.Op == Extend:
				c.violate(Stopped, m.member+" was to be cancelled, and its lease was extended", cancel, s)
			case s.call.Op != Ack && state != "" && state != "cancelled":
				c.violate(Stopped, fmt.Sprintf("%s was to be cancelled, and was %s when its lease ended", m.member, state), cancel, s)
			}
		}
	}
}

// stoppedBefore reports whether a message may have been cancelled with the end of its lease before a handout of another one.
func (c *checker) stoppedBefore(m *message, h *handout) bool {
	if !slices.ContainsFunc(m.cancels, func(o *op) bool { return o.call.Stop && o.maybe() && o.from() <= h.latest() }) {
		return false
	}
	var last *handout
	for _, one := range m.handouts {
		if one.at <= h.at {
			last = one
		}
	}
	return last == nil || c.unseen(m, h) > 0 || c.leaseEnded(last, h) ||
		slices.ContainsFunc(last.settles, func(s *op) bool { return s.call.Op != Extend && s.maybe() && s.from() <= h.latest() })
}
