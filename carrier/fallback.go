package carrier

import (
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// lateNudge is how late something is, when the beat finds it, that the carrier should have heard of.
const lateNudge = 50 * time.Millisecond

// A lookout notices what only the heartbeat found: its nudge was lost. A nudge
// that is merely slower than the beat, since the machine is busy, is waited
// for; until then what was carried is held back. The beat itself tells when that
// is over: it is published behind the nudge, and heard on the same connection.
type lookout struct {
	known  int64 // the earliest due time that the carrier knows of, in us
	byBeat bool  // nothing but the beat woke it

	held  *Carried // nil: there is no doubt
	due   int64    // of the earliest of it, in us
	at    int64    // when it was carried, in us
	heard bool     // its nudge came after all

	beat atomic.Int64 // the time of the last beat that was heard, in ms
}

// listens takes note of a beat that is heard. It may be called at any time.
func (l *lookout) listens(e store.Event) {
	if at := e.Ms(); at > 0 {
		l.beat.Store(at)
	}
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
	l.held, l.due, l.at, l.heard = &m, due, at, false
	return nil
}

// decided returns what was held back once its nudge is heard, or is known to be
// lost: a beat was heard that was sent behind it. The beat was looked up before
// the nudges that came until then.
func (l *lookout) decided(beat int64) *Carried {
	m := l.held
	if m == nil || !l.heard && beat < l.at/1000 {
		return nil
	}
	m.Fallback = !l.heard
	l.held = nil
	return m
}
