package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A sending is a broadcast that was sent, by the evidence of a log or a listener.
type sending struct {
	Entry
	message *message
	at      int64 // by the machine's clock, µs; later than it was if Redis's clock was set back, since positions only grow
	forgot  bool  // Redis may have forgotten it
	halfway bool  // the call may have stopped right after it, so that it is sent again
}

// sent returns all broadcasts that were sent, in the order of their positions.
func (c *checker) sent() []sending {
	entries := make(map[Entry]bool)
	for _, e := range c.final.Logs {
		entries[e] = true
	}
	for _, h := range c.listeners {
		for _, o := range h.received {
			if o.call.Op == Receive {
				entries[Entry{o.call.Topic, o.call.ID, o.call.Position}] = true
			}
		}
	}
	sent := make([]sending, 0, len(entries))
	for e := range maps.Keys(entries) {
		at := c.clock.machine(e.Position, never-1)
		forgot := c.undone(e.Topic, at-doubt, at+doubt) || len(c.clock) > 1 && c.undone(e.Topic, -never, never)
		halfway := slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() && w.touches(at-doubt, at+doubt) })
		sent = append(sent, sending{e, c.messages[record.Member(e.Topic, e.ID)], at, forgot, halfway})
	}
	slices.SortFunc(sent, func(a, b sending) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Topic, b.Topic))
	})
	return sent
}

// expiry returns when a broadcast expires, by Redis's clock in ms, if that is certain.
func (m *message) expiry() (end int64, known bool) {
	if !m.plain() || m.publishes[0].call.TTL == 0 {
		return 0, false
	}
	return m.publishes[0].due() + m.publishes[0].call.TTL, true
}

// mayExpire reports whether a broadcast may have expired before a time by the machine's clock.
func (c *checker) mayExpire(m *message, before int64) bool {
	if m == nil || !slices.ContainsFunc(m.publishes, func(p *op) bool { return p.call.TTL > 0 }) {
		return false
	}
	end, known := m.expiry()
	return !known || len(c.clock) > 1 || end*1000 <= before+doubt
}
