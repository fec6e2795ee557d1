package carrier

import (
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// lateNudge is how late something must be, when the beat finds it, for its nudge to
// count as late.
const lateNudge = 50 * time.Millisecond

// A lookout notices what only the heartbeat found: its nudge was lost. A nudge may
// also be merely slower than the beat, since the machine is busy. So the lookout
// holds back what was carried until the nudge comes, or the beat: that is published
// behind the nudge, and received on the same connection.
type lookout struct {
	known  int64 // earliest due time that the carrier knows of, in us
	byBeat bool  // only the beat woke the carrier

	held  *Carried // held back; nil: there is no doubt
	due   int64    // its earliest due time, in us
	at    int64    // when it was carried, in us
	heard bool     // its nudge came after all

	beat atomic.Int64 // time of the last beat that was received, in ms
}

// noteBeat takes note of a beat that was received. It is safe for concurrent use.
func (l *lookout) noteBeat(e store.Event) {
	if at := e.Ms(); at > 0 {
		l.beat.Store(at)
	}
}

// noteSleep takes note that the carrier goes to sleep until a due time, in us.
func (l *lookout) noteSleep(next int64) { l.known, l.byBeat = next, false }

// noteNudge takes note of a nudge for a due time, in us.
func (l *lookout) noteNudge(due int64) {
	l.known = min(l.known, due)
	l.heard = l.heard || due > 0 && due <= l.due // 0 means that the subscription was renewed
}

// carried returns what was carried if it may be reported at once; otherwise it holds
// it back and returns nil. due is its earliest due time, record.Never if nothing was
// carried, and at is when it was carried: both by Redis's clock in us.
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

// decided returns what was held back once its nudge came, or is known to be lost,
// because a beat was received that was sent later; beat is the time of the last one
// in ms. The caller must read beat before it takes the nudges that came until then.
func (l *lookout) decided(beat int64) *Carried {
	m := l.held
	if m == nil || !l.heard && beat < l.at/1000 {
		return nil
	}
	m.Fallback = !l.heard
	l.held = nil
	return m
}
