package history

import (
	"fmt"
	"slices"
)

// keepers returns the acknowledgements that may have had a message kept.
func (m *message) keepers() (all []*op) {
	for _, s := range m.settles {
		if s.call.Op == Ack && s.call.Keep > 0 && s.maybe() && !s.forgotten() {
			all = append(all, s)
		}
	}
	return all
}

// keptWell finds messages that are not kept as their acknowledgement said, and those that
// are kept with a result of no acknowledgement.
func (c *checker) keptWell(m *message) {
	result, kept := c.final.Done[m.member]
	keepers := m.keepers()
	if kept && !slices.ContainsFunc(keepers, func(s *op) bool { return s.call.Result == result }) {
		c.violate(Kept, fmt.Sprintf("%s is kept with the result %q, with which nobody acknowledged it", m.member, result), m.all()...)
		return
	}
	if kept || m.lives() > 1 || slices.ContainsFunc(m.cancels, (*op).maybe) {
		return
	}
	for _, s := range keepers {
		if s.ok() && !c.forgot(s) {
			c.violate(Kept, m.member+" was acknowledged to be kept, and is not", m.all()...)
			return
		}
	}
}

// awaited finds awaits that say what is not so, and those that say it too late.
func (c *checker) awaited(m *message) {
	for _, a := range m.awaits {
		c.inTime(m, a)
		if !a.ok() || c.undone(m.topic, -never, a.to()) {
			continue
		}
		switch a.state() {
		case "done":
			if !slices.ContainsFunc(m.keepers(), func(s *op) bool { return s.from() <= a.to() && s.call.Result == a.end.Result }) {
				c.violate(Awaited, fmt.Sprintf("an await of %s got the result %q, with which nobody had acknowledged it", m.member, a.end.Result), append(m.all(), a)...)
			}
		case "gone":
			if !c.removed(m) && !c.mayDrop(m) {
				c.violate(Awaited, m.member+" was told to be gone, and nothing may have removed it", append(m.all(), a)...)
			}
		}
	}
}

// inTime finds an await that went on for longer than stated after the acknowledgement of its
// message, or after its own wait.
func (c *checker) inTime(m *message, a *op) {
	if c.bounds.Late == 0 || a.end == nil {
		return
	}
	late := c.bounds.Late.Microseconds()
	tooLong := func(since int64) bool {
		return a.ended() > since+late+c.stood(since, a.ended()) && !c.struck(since-max(c.bounds.Late, c.bounds.Recovery).Microseconds(), a.ended())
	}
	if tooLong(a.from() + a.call.Wait*1000) {
		c.violate(Awaited, "an await of "+m.member+" went on after its wait was over", a)
		return
	}
	if m.lives() > 1 {
		return
	}
	for _, s := range m.settles {
		if s.call.Op == Ack && s.ok() && !c.forgot(s) && tooLong(max(a.from(), s.to())) {
			c.violate(Awaited, "an await of "+m.member+" went on after its acknowledgement", s, a)
			return
		}
	}
}

// archived compares the rows of a message with its ends.
func (c *checker) archived(m *message) {
	if !c.final.Archive || slices.ContainsFunc(c.windows, func(w window) bool { return w.halfway() }) {
		return
	}
	rows := make(map[string]int)
	for _, r := range m.rows {
		rows[r.call.State]++
		if r.call.State == "acked" && !(slices.Contains(c.final.Acked, m.topic) && c.removed(m)) {
			c.violate(Archived, m.member+" is archived as acknowledged, which it cannot be", append(m.all(), r)...)
			return
		}
	}
	for state, least := range c.endings(m) {
		if rows[state] < least {
			c.violate(Archived, fmt.Sprintf("%s was %s %d times, and the archive has %d rows of that", m.member, state, least, rows[state]), append(m.all(), m.rows...)...)
			return
		}
	}
	most := m.lives() // if none, they are unpublished
	for _, r := range m.requeues {
		if r.maybe() {
			most++
		}
	}
	if most > 0 && len(m.rows) > most && !c.undone(m.topic, -never, never) { // else it may have ended again
		c.violate(Archived, fmt.Sprintf("%s ended at most %d times, and the archive has %d rows", m.member, most, len(m.rows)), append(m.all(), m.rows...)...)
	}
}

// endings returns how often a message ended for certain, by the states of the archive.
func (c *checker) endings(m *message) map[string]int {
	times := make(map[string]int)
	for _, h := range m.handouts {
		for _, s := range h.settles {
			if !s.ok() || c.forgot(s) {
				continue
			}
			switch state := s.state(); {
			case state == "dead" || state == "dropped":
				times[state]++
			case s.call.Op == Ack && slices.Contains(c.final.Acked, m.topic):
				times["acked"]++
			}
		}
	}
	if slices.Contains(c.where(m), "dead") {
		times["dead"] = max(times["dead"], 1)
	}
	return times
}
