package history

import (
	"fmt"
	"slices"
)

// signed finds a request of a push whose webhook-id is not that of its message, the same over all attempts, or whose signature is not
// that of the push.
func (c *checker) signed(m *message) {
	requests := slices.Clone(m.pushes)
	if slices.Contains(c.bounds.Pushed, m.topic) {
		requests = append(requests, m.ops()...)
	}
	for _, r := range requests {
		switch {
		case r.call.Webhook != m.member:
			c.violate(Webhook, fmt.Sprintf("%s was pushed with the webhook-id %q", m.member, r.call.Webhook), r)
		case r.call.Forged:
			c.violate(Webhook, m.member+" was pushed without a signature of its push", r)
		}
	}
}

// checkAnnounced finds broadcasts of which no request was answered so that they are done, and requests for what was not sent. A request
// has no position, so a broadcast that was sent twice counts as one.
func (c *checker) checkAnnounced(sent []sending) {
	was := make(map[*message]bool, len(sent))
	for _, s := range sent {
		was[s.message] = true
		due := slices.Contains(c.bounds.PushedAll, s.Topic) && s.message != nil && c.drained > 0 && s.at < c.drained-doubt
		if due && !slices.ContainsFunc(s.message.pushes, (*op).ok) && !s.forgot && !c.mayExpire(s.message, c.last) {
			c.violate(Missed, fmt.Sprintf("the broadcast %s, sent at %d, was not pushed", s.message.member, s.Position),
				append(slices.Clone(s.message.publishes), s.message.pushes...)...)
		}
	}
	for _, m := range c.messages {
		if len(m.pushes) > 0 && !was[m] && !c.undone(m.topic, -never, never) {
			c.violate(Unpublished, m.member+" was pushed as a broadcast, but was not sent", append(slices.Clone(m.publishes), m.pushes...)...)
		}
	}
}
