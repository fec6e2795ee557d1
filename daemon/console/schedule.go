package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
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

	From, To string     // of a backfill, as they were written
	Refused  *pageFault // the form of a backfill was
}

// An upcoming time is one at which a schedule fires.
type upcoming struct {
	At   time.Time
	Text string // in the zone of the schedule
	Link string // address of the message that was made for it; empty: none yet
}

// An occurrence is one that a schedule made, and what became of it.
type occurrence struct {
	api.Occurrence
	Text string
	Link string // of its message; empty: the viewer may not see that
	Late time.Duration
}

// schedule returns what the page of a schedule shows.
func (c *Console) schedule(ctx context.Context, v *visit) (any, error) {
	topic, name := v.r.PathValue("topic"), v.r.PathValue("name")
	if err := scheduled(v, topic, name); err != nil {
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
	view := &scheduleView{visit: v, scheduleRow: rowOf(&read.Listed, now), Now: now, State: read.State, From: v.r.PostForm.Get("from"), To: v.r.PostForm.Get("to")}
	if read.Err == nil {
		view.show(&read)
	}
	return view, nil
}

// scheduled checks the names of a schedule, and whether the viewer may see and change it.
func scheduled(v *visit, topic, name string) error {
	if err := errors.Join(record.CheckTopic(topic), store.CheckScheduleName(name)); err != nil {
		return err
	}
	if !v.Has(calls.MaySchedule) || !v.Sees(topic) {
		return api.ErrForbidden
	}
	return nil
}

// readSchedule reads a schedule, and what became of the occurrences that it made last.
func (c *Console) readSchedule(ctx context.Context, topic, name string) (read scheduleRead, err error) {
	shard := c.store.Of(topic)
	read.Schedule, read.State, _, err = shard.Schedule(ctx, topic, name)
	switch {
	case errors.Is(err, store.ErrNoSchedule), notify.Retryable(err):
		return read, noSchedule(err)
	case err != nil:
		read.Schedule, read.Err = store.Schedule{Topic: topic, Name: name}, err
		return read, nil
	}
	read.last, err = shard.Occurrences(ctx, &read.Schedule, &read.State)
	return read, err
}

// noSchedule returns the fault of a schedule that is not there; any other error as it is.
func noSchedule(err error) error {
	if !errors.Is(err, store.ErrNoSchedule) {
		return err
	}
	return &pageFault{Status: http.StatusNotFound, Title: "There is no such schedule", Detail: "It was deleted, or never made. Nothing was done."}
}

// show fills in what the page shows of a schedule that can be read.
func (s *scheduleView) show(read *scheduleRead) {
	shown := api.ScheduleOf(&read.Schedule, read.State, s.Now)
	s.Put = putOf(&read.Schedule, shown)
	made := make(map[int64]bool)
	for _, one := range read.State.Occurrences {
		made[one.At.Unix()] = true
	}
	for _, at := range read.Schedule.Following(&read.State, s.Now, len(shown.State.Next)) {
		next := upcoming{At: at, Text: at.Format(api.InZone)}
		if made[at.Unix()] {
			next.Link = messagePath(s.Topic, read.Schedule.OccurrenceID(at))
		}
		s.Next = append(s.Next, next)
	}
	reads := s.Has(calls.MayPublish, calls.MayConsume)
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
func putOf(s *store.Schedule, shown api.Schedule) (rows []named) {
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

func (s *scheduleView) refuse(f *pageFault) { s.Refused = f }

func (s *scheduleView) title() string { return s.Name + " of " + s.Topic }

// scheduleActs are what can be done to a schedule, by the names of their buttons.
var scheduleActs = []struct {
	name string
	do   func(ctx context.Context, c *Console, v *visit, topic, name string) (did string, err error)
}{
	{"run", func(ctx context.Context, c *Console, v *visit, topic, name string) (string, error) {
		of, _, _, err := c.store.Of(topic).Schedule(ctx, topic, name)
		if err != nil {
			return "", err
		}
		p, err := api.RunSchedule(ctx, c.store, topic, name)
		v.makes(topic, p.ID, of.Message.Broadcast)
		return "Ran the schedule " + name + " of " + topic + ": published " + p.ID + ", " + p.State.String(), err
	}},
	{"pause", changing("Paused", store.Shard.PauseSchedule)},
	{"resume", changing("Resumed", store.Shard.ResumeSchedule)},
	{"delete", changing("Deleted", store.Shard.DeleteSchedule)},
}

// changing returns what changes a schedule, and says that it did.
func changing(did string, do func(s store.Shard, ctx context.Context, topic, name string, revision int64) error) func(context.Context, *Console, *visit, string, string) (string, error) {
	return func(ctx context.Context, c *Console, _ *visit, topic, name string) (string, error) {
		return did + " the schedule " + name + " of " + topic, do(c.store.Of(topic), ctx, topic, name, store.AnyRevision)
	}
}

// scheduleAct runs, pauses, resumes or deletes a schedule: the form has a button of that name, whose value names the schedule.
var scheduleAct = act{path: Root + "acts/schedules", name: "change a schedule", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	for _, one := range scheduleActs {
		if !v.r.PostForm.Has(one.name) {
			continue
		}
		topic, name, _ := strings.Cut(v.r.PostForm.Get(one.name), ":")
		if err := scheduled(v, topic, name); err != nil {
			return "", 0, err
		}
		if one.name == "delete" {
			if err := v.sure("Delete the schedule %s of %s, and withdraw what it made ahead?", name, topic); err != nil {
				return "", 0, err
			}
			v.instead = schedulesPath(topic)
		}
		did, err := one.do(ctx, c, v, topic, name)
		err = noSchedule(err)
		c.forgetSchedule(topic, name)
		return did, oneIf(err), err
	}
	return "", 0, fault.New("act", "act: a button named run, pause, resume or delete says what to do; go back, and take one")
}}

// forgetSchedule has a schedule read again at once, and its topic: an act changed it.
func (c *Console) forgetSchedule(topic, name string) {
	c.caches.schedules.Clear()
	c.caches.schedule.Forget(record.Member(topic, name))
	c.forget(topic)
}
