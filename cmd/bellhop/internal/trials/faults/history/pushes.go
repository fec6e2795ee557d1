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

// mayEnd reports whether others that own the lease of a handout, and whose claims are not recorded, may have ended its message with it
// between a time and a handout of another one.
func (h *handout) mayEnd(from int64, other *handout) bool {
	return h.kept() && h.at >= from && h.ended() <= other.at+doubt && (h.ok() || h.state() == "dead" || h.state() == "dropped")
}

// livedOn reports whether a message was claimed after the handout of another one, so that it had not died by then.
func (c *checker) livedOn(m *message, h *handout) bool {
	if m.lives() > 1 || slices.ContainsFunc(m.requeues, (*op).maybe) {
		return false
	}
	return slices.ContainsFunc(m.handouts, func(later *handout) bool {
		return later.at > h.at+doubt && !c.undone(m.topic, -never, later.latest()) &&
			!slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() && w.from() <= later.latest() })
	})
}
