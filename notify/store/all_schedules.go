package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var allSchedulesScript = script.New("all_schedules")

// A SchedulePage is a page of the schedules of a shard.
type SchedulePage struct {
	Now       time.Time // by Redis's clock
	All       int       // schedules of the shard
	Zones     string    // by which version of the rules of time zones they were filled last; empty: they never were
	Next      Mark      // of the next page; zero: this was the last
	Schedules []DatedSchedule
}

// A DatedSchedule is one in a page of all: what it publishes is left out.
type DatedSchedule struct {
	Listed
	Look time.Time // when the carrier looks at it next; zero: never, since it is paused, or at its end
}

// AllSchedules returns a page of up to so many schedules of all topics of a shard, from behind a mark, in the order in which the carrier looks
// at them: those that it never looks at are last. The error is that of the connection.
func (s Shard) AllSchedules(ctx context.Context, most int, after Mark) (SchedulePage, error) {
	r, err := s.Run(ctx, allSchedulesScript, most, after.Time, after.Member)
	if err != nil {
		return SchedulePage{}, err
	}
	page := SchedulePage{Now: time.UnixMilli(r.Integer()).UTC(), All: int(r.Integer()), Zones: r.Text(), Next: Mark{Time: r.Text(), Member: r.Text()}}
	for r.More() {
		d := DatedSchedule{Listed: listed(r.Text(), r.Text(), r.Text(), r.Text())}
		if us := r.Due(); us < record.Never {
			d.Look = time.UnixMicro(us).UTC()
		}
		page.Schedules = append(page.Schedules, d)
	}
	return page, r.End()
}

// Standing says how a schedule stands.
type Standing string

// The values of Standing.
const (
	GoesOn     Standing = "goes on"
	IsPaused   Standing = "paused"
	IsBehind   Standing = "behind"     // what it is to make was not made within its grace
	IsRefused  Standing = "refused"    // what it is to make cannot be made
	IsOver     Standing = "over"       // it never fires again
	Unreadable Standing = "unreadable" // so it makes nothing
)

// Standing returns how a schedule stands at a time. The error says why it cannot be read.
func (l *Listed) Standing(now time.Time) (Standing, error) {
	err := l.Err
	if err == nil {
		_, err = l.Schedule.Rule()
	}
	if since := l.State.Unread; err == nil && !since.IsZero() {
		err = fmt.Errorf("since %s the carrier fails to read it: it is damaged, or newer than the daemon that carries, which is to be updated", since.Format(time.RFC3339))
	}
	if err != nil {
		return Unreadable, err
	}
	next := l.Schedule.Unmade(&l.State)
	switch {
	case !l.State.Paused.IsZero():
		return IsPaused, nil
	case !l.State.Refused.IsZero():
		return IsRefused, nil
	case !next.IsZero() && now.Sub(next) > cmp.Or(l.Schedule.Grace, DefaultGrace):
		return IsBehind, nil
	case next.IsZero() && len(l.Schedule.Following(&l.State, now, 1)) == 0:
		return IsOver, nil
	}
	return GoesOn, nil
}

// Swallowed returns the first time to come at which the schedule does not fire since it was filled while the clock of Redis was ahead; zero: there
// is none.
func (s *Schedule) Swallowed(state *ScheduleState, now time.Time) time.Time {
	ahead, made := state.Fell.After(now), make(map[int64]bool, len(state.Occurrences))
	for _, one := range state.Occurrences {
		ahead = ahead || one.Published.After(now)
		made[one.At.Unix()] = true
	}
	rule, err := s.Rule()
	if err != nil || !ahead || !state.Paused.IsZero() {
		return time.Time{}
	}
	at, ok := rule.Next(now)
	for ok && made[at.Unix()] {
		at, ok = rule.Next(at)
	}
	if !ok || at.After(state.Cursor) {
		return time.Time{}
	}
	return at.UTC()
}

// Unmade returns the first time after the cursor at which the schedule fires and whose occurrence was not made; zero: there is none, or the
// schedule is paused, or cannot be read. Where it lies in the past nobody fills the schedule.
func (s *Schedule) Unmade(state *ScheduleState) time.Time {
	rule, err := s.Rule()
	if err != nil || !state.Paused.IsZero() || s.Count > 0 && state.Made >= int64(s.Count) {
		return time.Time{}
	}
	made := make(map[int64]bool, len(state.Occurrences))
	for _, one := range state.Occurrences {
		made[one.At.Unix()] = true
	}
	at, ok := rule.Next(state.Cursor)
	for ok && made[at.Unix()] {
		at, ok = rule.Next(at)
	}
	if !ok {
		return time.Time{}
	}
	return at.UTC()
}
