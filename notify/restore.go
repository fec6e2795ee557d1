package notify

import (
	"encoding/json"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// maxReason is the most bytes of a restored reason: somewhat more than a worker's
// reason is cut to.
const maxReason = 1024

// maxTookMs is the longest time that a restored attempt took: a century.
const maxTookMs = 100 * 366 * 24 * 3600_000

// A Restore is what a message had in another store beyond what its publisher set.
// [Inspector.Export] writes it, [ParseExported] reads it, and publishing restores it. A
// restored message has an id, so that publishing may be repeated safely, and a due
// time unless it is dead.
type Restore struct {
	Published    time.Time `json:"published,omitzero"`      // by the clock of that Redis; zero: now
	FirstDue     time.Time `json:"first_due,omitzero"`      // of the first attempt; zero: the due time, or Published for a dead letter
	AttemptsUsed int       `json:"attempts_used,omitempty"` // zero for a broadcast
	History      []Tried   `json:"history,omitempty"`       // of the last attempts that failed, oldest first; none for a broadcast
	Expires      time.Time `json:"expires,omitzero"`        // of a message with a TTL; zero: TTL after the due time
	Snoozed      int       `json:"snoozed,omitempty"`
	Schedule     string    `json:"schedule,omitempty"` // whose key it has, that of an occurrence which does not overlap others; empty: none
	Next         *Line     `json:"next,omitempty"`     // what follows it (After), with its own due time; nil: nothing does

	Died   time.Time `json:"died,omitzero"` // of a dead letter; zero: not dead
	Reason string    `json:"reason,omitempty"`
}

// Tried is an attempt that failed, in a Restore.
type Tried struct {
	Ended  time.Time `json:"ended"`
	TookMs *int64    `json:"took_ms,omitempty"` // nil: unknown
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// triedOf returns attempts as an export has them.
func triedOf(history []Attempt) (all []Tried) {
	for _, a := range history {
		one := Tried{Ended: a.Ended.UTC(), By: a.By, Reason: a.Reason}
		if a.Took >= 0 {
			one.TookMs = new(a.Took.Milliseconds())
		}
		all = append(all, one)
	}
	return all
}

// attempts returns the attempts of an export.
func (r *Restore) attempts() (all []Attempt) {
	for _, one := range r.History {
		a := Attempt{Ended: one.Ended, Took: -1, By: one.By, Reason: one.Reason}
		if one.TookMs != nil {
			a.Took = time.Duration(*one.TookMs) * time.Millisecond
		}
		all = append(all, a)
	}
	return all
}

// checkHistory returns a joined Fault for each attempt that is wrong.
func (r *Restore) checkHistory(broadcast bool) error {
	if len(r.History) > record.MaxHistory || broadcast && len(r.History) > 0 {
		return fault.New("restore.history", "restore.history: %d attempts; use up to %d, and none for a broadcast", len(r.History), record.MaxHistory)
	}
	var faults []error
	for _, one := range r.History {
		faults = append(faults, record.CheckRestored("restore.history.ended", one.Ended))
		if one.Ended.IsZero() {
			faults = append(faults, fault.New("restore.history.ended", "restore.history.ended: it is missing; write when the attempt ended"))
		}
		if one.TookMs != nil {
			faults = append(faults, fault.Within("restore.history.took_ms", "restore.history.took_ms", *one.TookMs, 0, maxTookMs))
		}
		if one.By != "" {
			faults = append(faults, record.CheckWorker("restore.history.by", one.By))
		}
		if len(one.Reason) > record.MaxReason || !utf8.ValidString(one.Reason) {
			faults = append(faults, fault.New("restore.history.reason", "restore.history.reason: use text of at most %d bytes", record.MaxReason))
		}
	}
	return errors.Join(faults...)
}

// dead reports whether the message is a dead letter.
func (r *Restore) dead() bool { return r != nil && !r.Died.IsZero() }

// checkRestore returns a joined Fault for each invalid field of a Restore, nil without one.
func (m *Message) checkRestore() error {
	r := m.Restore
	if r == nil {
		return nil
	}
	faults := []error{
		record.CheckRestored("restore.published", r.Published), record.CheckRestored("restore.first_due", r.FirstDue),
		record.CheckRestored("restore.expires", r.Expires), record.CheckRestored("restore.died", r.Died),
	}
	refuse := func(wrong bool, field, format string, args ...any) {
		if wrong {
			faults = append(faults, fault.New(field, format, args...))
		}
	}
	refuse(m.ID == "", "restore", "restore: the message has no id; give its own, so that it is not restored twice")
	refuse(m.Delay != 0, "delay", "delay %v: what is restored has none; give due, or died if it is dead", m.Delay)
	refuse(m.Spread != 0, "spread", "spread %v: what is restored is due as it was; leave it out", m.Spread)
	refuse(r.dead() && !m.Due.IsZero(), "due", "due: a dead letter has none; give due or restore.died")
	refuse(!r.dead() && m.Due.IsZero(), "due", "due: it is missing; what is restored has one, or restore.died if it is dead")
	refuse(r.AttemptsUsed < 0 || r.AttemptsUsed > record.MostAttempts, "restore.attempts_used", "restore.attempts_used %d: use 0 to %d", r.AttemptsUsed, record.MostAttempts)
	refuse(r.AttemptsUsed != 0 && m.Broadcast, "restore.attempts_used", "restore.attempts_used %d: a broadcast has none; leave it out", r.AttemptsUsed)
	refuse(!r.FirstDue.IsZero() && m.Broadcast, "restore.first_due", "restore.first_due: a broadcast has none; leave it out")
	refuse(!r.FirstDue.IsZero() && r.Published.IsZero(), "restore.first_due", "restore.first_due: restore.published is missing; give both or neither")
	refuse(!r.Expires.IsZero() && m.TTL == 0, "restore.expires", "restore.expires: the message has no ttl; give both or neither")
	refuse(!r.Expires.IsZero() && r.dead(), "restore.expires", "restore.expires: a dead letter does not expire; leave it out")
	refuse(!r.Expires.IsZero() && m.Broadcast, "restore.expires", "restore.expires: a broadcast has none, its ttl counts from its due time; leave it out")
	refuse(r.Snoozed < 0 || r.Snoozed > 0 && m.Broadcast, "restore.snoozed", "restore.snoozed %d: use 0 or more, and leave it out for a broadcast", r.Snoozed)
	refuse(r.Next != nil && (m.Broadcast || r.dead()), "restore.next", "restore.next: nothing follows a broadcast or a dead letter; publish it by itself")
	refuse(r.Reason != "" && !r.dead(), "restore.reason", "restore.reason: it is of a dead letter; give restore.died, too, or leave it out")
	refuse(len(r.Reason) > maxReason || !utf8.ValidString(r.Reason), "restore.reason", "restore.reason: use text of at most %d bytes", maxReason)
	if r.Schedule != "" {
		faults = append(faults, fault.Renamed("restore.schedule", record.CheckScheduleName(r.Schedule)))
		refuse(m.Key != "" || m.Broadcast, "restore.schedule", "restore.schedule %.100s: it has a key for the message; leave key out, and this for a broadcast", r.Schedule)
	}
	faults = append(faults, r.checkHistory(m.Broadcast))
	if _, err := r.next(m); err != nil {
		faults = append(faults, fault.New("restore.next", "restore.next: %w", err))
	}
	return errors.Join(faults...)
}

// next returns the record of what follows a restored message, nil if nothing does. The
// error is a joined Fault.
func (r *Restore) next(m *Message) (*Record, error) {
	if r.Next == nil {
		return nil, nil
	}
	line := *r.Next
	line.Topic, line.ID = m.Topic, m.ID
	text, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	next, err := ParseExported(text)
	if err != nil {
		return nil, err
	}
	if next.Restore == nil || next.Restore.Next != nil || next.Restore.dead() || next.Broadcast {
		return nil, fault.New("restore", "restore: it has when the message was published and nothing follows it; write what the export has")
	}
	if err := next.check(math.MaxInt); err != nil {
		return nil, err
	}
	record := next.record()
	record.Published, record.FirstDue = next.Restore.Published, next.Due
	if record.Published.IsZero() {
		record.Published = next.Due
	}
	return record, nil
}

// restoredOf returns a message's Restore as the store takes it, and what is noted of it;
// nil for a new message.
func restoredOf(m *Message, marked bool) (restored *store.Restored, noted string, err error) {
	r := m.Restore
	if r == nil {
		return nil, "", nil
	}
	restored = &store.Restored{Broadcast: m.Broadcast, Marked: marked, Key: m.key(), Drop: m.IfBusy == dropped, Group: m.Group, AfterGroup: m.AfterGroup, OnDead: m.OnDead, Used: record.EncodeAttempts(r.AttemptsUsed, r.attempts())}
	if r.dead() {
		restored.Died, restored.Reason = r.Died.UnixMilli(), r.Reason
	} else {
		restored.Due, restored.Waits = int64(store.At(m.Due)), m.waits()
		if m.TTL > 0 && !m.Broadcast && !(restored.Waits && r.Expires.IsZero()) { // which counts from when it is due
			restored.Expires = expiryOf(m, restored.Due)
		}
	}
	if !r.Published.IsZero() {
		restored.Times = record.EncodeTimes(r.Published, m.firstDue(restored.Due))
	}
	if m.Broadcast {
		return restored, "", nil
	}
	next, err := r.next(m)
	if err == nil {
		noted, err = store.Noted{Snoozed: r.Snoozed, Next: next}.String(m.UniqueFor)
	}
	restored.Extras = len(noted)
	return restored, noted, err
}

// firstDue returns when the first attempt of a restored message was due; due, in Unix
// milliseconds, is its due time now.
func (m *Message) firstDue(due int64) time.Time {
	switch r := m.Restore; {
	case !r.FirstDue.IsZero():
		return r.FirstDue
	case m.Broadcast, r.dead():
		return r.Published
	}
	return time.UnixMilli(due)
}

// expiryOf returns when a restored message with a TTL expires; due and the result are
// in Unix milliseconds.
func expiryOf(m *Message, due int64) int64 {
	if at := m.Restore.Expires; !at.IsZero() {
		return at.UnixMilli()
	}
	return min(m.TTL.Milliseconds(), record.MaxDueMs-due) + due
}
