package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const scheduleRows = 200 // on the page

// A scheduleRow is a schedule in the table.
type scheduleRow struct {
	Topic, Name string
	Standing    store.Standing
	Fires       string
	At          time.Time // when it fires next; zero: never
	Next        string    // that in its zone
}

// Link returns the address of the page of the schedule, and TopicLink that of its topic.
func (r scheduleRow) Link() string      { return schedulePath(r.Topic, r.Name) }
func (r scheduleRow) TopicLink() string { return topicPath(r.Topic) }

// Member returns the name of the schedule among those of all topics.
func (r scheduleRow) Member() string { return record.Member(r.Topic, r.Name) }

// Class returns the class of the style of how the schedule stands.
func (r scheduleRow) Class() string { return standings[rankOf(r.Standing)].class }

// standings are the classes of how schedules stand, the worst first.
var standings = []struct {
	is    store.Standing
	class string
}{{store.Unreadable, "dead"}, {store.IsRefused, "dead"}, {store.IsBehind, "late"}, {store.GoesOn, "ok"}, {store.IsPaused, "paused"}, {store.IsOver, "quiet"}}

func rankOf(s store.Standing) int {
	for i, one := range standings {
		if one.is == s {
			return i
		}
	}
	return len(standings)
}

// rowOf returns the row of a schedule.
func rowOf(l *store.Listed, now time.Time) scheduleRow {
	s := &l.Schedule
	standing, err := l.Standing(now)
	row := scheduleRow{Topic: s.Topic, Name: s.Name, Standing: standing}
	if err != nil {
		row.Fires = brief(err.Error())
		return row
	}
	row.Fires = calls.Fires(s.Spec, s.Count)
	if next := s.Following(&l.State, now, 1); len(next) > 0 {
		row.At, row.Next = next[0], next[0].Format(calls.InZone)
	}
	return row
}

// A schedulesPart is the rows of a table of schedules.
type schedulesPart struct {
	Rows []scheduleRow
	More bool // there are others
}

// sorted returns as many rows as the page shows: what is wrong first, then by topic and name.
func (p schedulesPart) sorted() schedulesPart {
	slices.SortFunc(p.Rows, func(a, b scheduleRow) int {
		return cmp.Or(cmp.Compare(rankOf(a.Standing), rankOf(b.Standing)), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Name, b.Name))
	})
	if len(p.Rows) > scheduleRows {
		p.Rows, p.More = slices.Clone(p.Rows[:scheduleRows]), true
	}
	return p
}
