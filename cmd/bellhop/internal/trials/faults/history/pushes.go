package history

import (
	"fmt"
	"slices"
)

// pushed finds a request of a push whose webhook-id is not that of its message, the same over all attempts, or whose signature is not
// that of the push.
func (c *checker) pushed(m *message, h *handout) {
	if !slices.Contains(c.bounds.Pushed, m.topic) {
		return
	}
	switch {
	case h.call.Webhook != m.member:
		c.violate(Webhook, fmt.Sprintf("%s was pushed with the webhook-id %q", m.member, h.call.Webhook), h.op)
	case h.call.Forged:
		c.violate(Webhook, m.member+" was pushed without a signature of its push", h.op)
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
