package notify

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store"
)

// maxReason is how many bytes a reason of death has at the most: some more than a worker's is cut to.
const maxReason = 1024

// A Restore is what a message had in another store beside what its publisher gave
// it. Publishing gives it back: [Inspector.Export] writes it, and [ParseExported]
// reads it. A message that is restored has an id, so that it can be published
// again safely, and a due time unless it is dead.
type Restore struct {
	Published    time.Time `json:"published,omitzero"`      // by the clock of that Redis; zero: now
	FirstDue     time.Time `json:"first_due,omitzero"`      // of the first attempt; zero: when it is due, of a dead letter when it was published
	AttemptsUsed int       `json:"attempts_used,omitempty"` // of a broadcast none
	Expires      time.Time `json:"expires,omitzero"`        // of one with a TTL; zero: its TTL after it is due

	Died   time.Time `json:"died,omitzero"` // a dead letter; zero: it is not dead
	Reason string    `json:"reason,omitempty"`
}

// dead reports whether it is a dead letter.
func (r *Restore) dead() bool { return r != nil && !r.Died.IsZero() }

// checkRestore reports the first fault of what is restored, nil: nothing is.
func (m *Message) checkRestore() error {
	r := m.Restore
	switch {
	case r == nil:
		return nil
	case m.ID == "":
		return store.Faultf("restore", "restore: the message has no id; give its own, so that it is not restored twice")
	case m.Delay != 0:
		return store.Faultf("delay", "delay %v: what is restored has none; give due, or died if it is dead", m.Delay)
	case r.dead() && !m.Due.IsZero():
		return store.Faultf("due", "due: a dead letter has none; give due or restore.died")
	case !r.dead() && m.Due.IsZero():
		return store.Faultf("due", "due: it is missing; what is restored has one, or restore.died if it is dead")
	case r.AttemptsUsed < 0 || r.AttemptsUsed > store.MostAttempts:
		return store.Faultf("restore.attempts_used", "restore.attempts_used %d: use 0 to %d", r.AttemptsUsed, store.MostAttempts)
	case r.AttemptsUsed != 0 && m.Broadcast:
		return store.Faultf("restore.attempts_used", "restore.attempts_used %d: a broadcast has none; leave it out", r.AttemptsUsed)
	case !r.FirstDue.IsZero() && m.Broadcast:
		return store.Faultf("restore.first_due", "restore.first_due: a broadcast has none; leave it out")
	case !r.FirstDue.IsZero() && r.Published.IsZero():
		return store.Faultf("restore.first_due", "restore.first_due: restore.published is missing; give both or neither")
	case !r.Expires.IsZero() && m.TTL == 0:
		return store.Faultf("restore.expires", "restore.expires: the message has no ttl; give both or neither")
	case !r.Expires.IsZero() && r.dead():
		return store.Faultf("restore.expires", "restore.expires: a dead letter does not expire; leave it out")
	case r.Reason != "" && !r.dead():
		return store.Faultf("restore.reason", "restore.reason: it is of a dead letter; give restore.died, too, or leave it out")
	case len(r.Reason) > maxReason || !utf8.ValidString(r.Reason):
		return store.Faultf("restore.reason", "restore.reason: use text of at most %d bytes", maxReason)
	}
	return cmp.Or(
		checkTime("restore.published", r.Published), checkTime("restore.first_due", r.FirstDue),
		checkTime("restore.expires", r.Expires), checkTime("restore.died", r.Died),
	)
}

// checkTime reports what is wrong with a time of a field; the zero time is none.
func checkTime(field string, at time.Time) error {
	if !at.IsZero() && (at.Before(time.UnixMilli(1)) || at.After(store.MaxDue)) {
		return store.Faultf(field, "%s %s: use a time from 1970 to 9999", field, at.Format(time.RFC3339))
	}
	return nil
}

// restoredOf returns what the store takes of a message that is restored; nil of a new one.
func restoredOf(m *Message) *store.Restored {
	r := m.Restore
	if r == nil {
		return nil
	}
	told := &store.Restored{Broadcast: m.Broadcast, Used: r.AttemptsUsed}
	if r.dead() {
		told.Died, told.Reason = r.Died.UnixMilli(), r.Reason
	} else if told.Due = int64(store.At(m.Due)); m.TTL > 0 {
		told.Expires = expiryOf(m, told.Due)
	}
	if !r.Published.IsZero() {
		told.Times = store.EncodeTimes(r.Published, m.firstDue(told.Due))
	}
	return told
}

// firstDue returns when the first attempt of what is restored was due, as its record
// tells; due is in milliseconds.
func (m *Message) firstDue(due int64) time.Time {
	switch r := m.Restore; {
	case !r.FirstDue.IsZero():
		return r.FirstDue
	case m.Broadcast, r.dead():
		return r.Published
	}
	return time.UnixMilli(due)
}

// expiryOf returns when a message expires that has a TTL and is due at a time, in milliseconds.
func expiryOf(m *Message, due int64) int64 {
	if at := m.Restore.Expires; !at.IsZero() {
		return at.UnixMilli()
	}
	return min(m.TTL.Milliseconds(), maxDueMs-due) + due
}
