package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

var schedulePage = page{
	path: Root + "topics/{topic}/schedules/{name}", title: "Schedule", nav: "schedules", name: "schedule", live: true, holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.schedule(ctx, v) },
}

// A scheduleView is what the page of a schedule shows.
type scheduleView struct {
	*visit
	scheduleRow
	Now   time.Time
	State store.ScheduleState
	Put   []named    // how it was put
	Next  []upcoming // when it fires next
	Last  []occurrence
	Body  shownBody
}

// An upcoming time is one at which a schedule fires.
type upcoming struct {
	At   time.Time
	Text string // in the zone of the schedule
	Link string // address of the message that was made for it; empty: none yet
}

// An occurrence is one that a schedule made, and what became of it.
type occurrence struct {
	calls.Occurrence
	Text string
	Link string // of its message; empty: the viewer may not see that
	Late time.Duration
}

// schedule returns what the page of a schedule shows.
func (c *Console) schedule(ctx context.Context, v *visit) (any, error) {
	topic, name := v.r.PathValue("topic"), v.r.PathValue("name")
	if err := v.check("showSchedule", "topic", topic, "name", name); err != nil {
		return nil, err
	}
	member := record.Member(topic, name)
	read, err := c.caches.schedule.Get(ctx, member, cache.Keep{Age: relisted}, func(ctx context.Context) (scheduleRead, error) { return c.readSchedule(ctx, topic, name) })
	if err != nil {
		return nil, err
	}
	if len(read.Schedule.Message.Body) > mostKept {
		c.caches.schedule.Forget(member)
	}
	now := c.now(ctx)
	view := &scheduleView{visit: v, scheduleRow: rowOf(&read.Listed, now), Now: now, State: read.State}
	if read.Err == nil {
		view.show(&read)
	}
	return view, nil
}

// readSchedule reads a schedule, and what became of the occurrences that it made last.
func (c *Console) readSchedule(ctx context.Context, topic, name string) (read scheduleRead, err error) {
	shard := c.store.Of(topic)
	read.Schedule, read.State, _, err = shard.Schedule(ctx, topic, name)
	switch {
	case errors.Is(err, store.ErrNoSchedule), notify.Retryable(err):
		return read, err
	case err != nil:
		read.Schedule, read.Err = store.Schedule{Topic: topic, Name: name}, err
		return read, nil
	}
	read.last, err = shard.Occurrences(ctx, &read.Schedule, &read.State)
	return read, err
}

// show fills in what the page shows of a schedule that can be read.
func (s *scheduleView) show(read *scheduleRead) {
	shown := calls.ScheduleOf(&read.Schedule, read.State, s.Now)
	s.Put = putOf(&read.Schedule, shown)
	made := make(map[int64]bool)
	for _, one := range read.State.Occurrences {
		made[one.At.Unix()] = true
	}
	for _, at := range read.Schedule.Following(&read.State, s.Now, len(shown.State.Next)) {
		next := upcoming{At: at, Text: at.Format(calls.InZone)}
		if made[at.Unix()] {
			next.Link = messagePath(s.Topic, read.Schedule.OccurrenceID(at))
		}
		s.Next = append(s.Next, next)
	}
	reads := s.Reads()
	shown.Note(read.last)
	for _, one := range slices.Backward(shown.State.Last) {
		o := occurrence{Occurrence: one, Text: moment(one.At), Late: time.Duration(one.LateMs) * time.Millisecond}
		if o.Became = cmp.Or(one.Became, "not made: its id was in use"); reads {
			o.Link = messagePath(s.Topic, one.ID)
		}
		s.Last = append(s.Last, o)
	}
	s.Body = bodyOf(read.Schedule.Message.Body, "")
}

// putOf returns how a schedule was put, but its body.
func putOf(s *store.Schedule, shown calls.Schedule) (rows []named) {
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, named{name, value})
		}
	}
	duration := func(name string, d time.Duration) {
		if d > 0 {
			add(name, fault.Short(d))
		}
	}
	add("fires", shown.Fires())
	add("from", moment(s.Spec.From))
	add("until", moment(s.Spec.Until))
	duration("jitter", s.Jitter)
	add("overlap", string(shown.Overlap))
	add("missed", string(shown.IfMissed))
	duration("grace", s.Grace)
	duration("catchup", s.Catchup)
	add("mode", shown.Mode)
	for _, one := range shown.Named() {
		add(one.Name, one.Text)
	}
	return rows
}

// Headline returns how the schedule stands, and when it fires next.
func (s *scheduleView) Headline() string {
	switch s.Standing {
	case store.IsPaused:
		return "Paused since " + moment(s.State.Paused)
	case store.IsBehind:
		return "Behind: nobody makes what it is to make. Is a carrier elected?"
	case store.IsRefused:
		return "Refused since " + moment(s.State.Refused) + ": a key of its topic in Redis is foreign. bellhop doctor says which"
	case store.Unreadable:
		return "Unreadable: it makes nothing. Put it again, or delete it"
	case store.IsOver:
		return "Over: it never fires again"
	}
	return "It fires " + soon(s.Now, s.At)
}

// Link returns the address of the page.
func (s *scheduleView) Link() string { return s.scheduleRow.Link() }

// Change returns the address of the form that changes the schedule.
func (s *scheduleView) Change() string { return putSchedulePath(s.Topic, s.Name) }

func (s *scheduleView) title() string { return s.Name + " of " + s.Topic }

// scheduleAct runs, pauses, resumes or deletes a schedule: the form has a button of that name, whose value names the schedule.
var scheduleAct = act{path: Root + "acts/schedules", name: "change a schedule", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	what, member, err := v.button("run", "pause", "resume", "delete")
	if err != nil {
		return "", 0, err
	}
	topic, name, _ := strings.Cut(member, ":")
	if what == "delete" {
		if err := v.check("deleteSchedule", "topic", topic, "name", name); err != nil {
			return "", 0, err
		}
		if err := v.sure("Delete the schedule %s of %s, and withdraw what it made ahead?", name, topic); err != nil {
			return "", 0, err
		}
		v.instead = schedulesPath(topic)
	}
	defer c.forgetSchedule(topic, name)
	if what == "run" {
		did, err := c.run(ctx, v, topic, name)
		return did, oneIf(err), err
	}
	_, err = ask[any](ctx, c, v, what+"Schedule", "topic", topic, "name", name)
	return past[what] + " the schedule " + name + " of " + topic, oneIf(err), err
}}

// run publishes the message of a schedule.
func (c *Console) run(ctx context.Context, v *visit, topic, name string) (did string, err error) {
	of, err := ask[calls.Schedule](ctx, c, v, "showSchedule", "topic", topic, "name", name)
	if err != nil {
		return "", err
	}
	p, err := ask[api.Publication](ctx, c, v, "runSchedule", "topic", topic, "name", name)
	v.makes(topic, p.ID, of.Mode != "")
	return "Ran the schedule " + name + " of " + topic + ": published " + p.ID + ", " + p.State.String(), err
}

// forgetSchedule has a schedule read again at once, and its topic: an act changed it.
func (c *Console) forgetSchedule(topic, name string) {
	c.caches.schedules.Clear()
	c.caches.schedule.Forget(record.Member(topic, name))
	c.forget(topic)
}
