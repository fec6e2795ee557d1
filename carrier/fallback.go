package carrier

import "time"

const (
	lateNudge = 50 * time.Millisecond  // what is later than that when the beat finds it should have been heard of
	lostNudge = 100 * time.Millisecond // a nudge that is not heard that long after the beat is lost
)

// A lookout notices what only the heartbeat found: its nudge was lost. A nudge
// that is merely slower than the beat, since the machine is busy, is waited
// for; until then what was carried is held back.
type lookout struct {
	known  int64 // the earliest due time that the carrier knows of, in us
	byBeat bool  // nothing but the beat woke it

	held  *Carried // nil: there is no doubt
	due   int64    // of the earliest of it, in us
	since time.Time
	heard bool // its nudge came after all
}

// sleeps takes note that the carrier goes to sleep, and of what it knows.
func (l *lookout) sleeps(next int64) { l.known, l.byBeat = next, false }

// hears takes note of a nudge for a due time, in us.
func (l *lookout) hears(due int64) {
	l.known = min(l.known, due)
	l.heard = l.heard || due > 0 && due <= l.due // 0 is of a connection that stands anew
}

// carried returns what was carried if it may be told at once, and else holds it
// back. The earliest of it was due at a time, and was carried at another, by
// Redis's clock in us; due is never where nothing was.
func (l *lookout) carried(m Carried, due, at int64) *Carried {
	late := time.Duration(at-due) * time.Microsecond
	doubtful := l.byBeat && due < l.known && late > lateNudge
	l.byBeat = false
	if !doubtful || l.held != nil {
		return &m
	}
	l.held, l.due, l.since, l.heard = &m, due, time.Now(), false
	return nil
}

// decided returns what was held back once it is known whether the nudge was lost.
func (l *lookout) decided() *Carried {
	m := l.held
	if m == nil || !l.heard && time.Since(l.since) < lostNudge {
		return nil
	}
	m.Fallback = !l.heard
	l.held = nil
	return m
}
