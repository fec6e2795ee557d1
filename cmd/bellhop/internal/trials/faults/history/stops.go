package history

import "fmt"

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
