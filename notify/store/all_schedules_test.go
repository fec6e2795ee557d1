package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// The schedules of all topics of a shard are listed in pages, those that the carrier looks at first before others, and a page goes on from one that
// is gone.
func TestAllSchedules(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	var names []string
	for i := range 7 {
		s := hourly(r, fmt.Sprint("n", i))
		s.Message.Body = []byte("not listed")
		r.put(s)
		names = append(names, s.Name)
	}
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "n0", store.AnyRevision))
	var got []string
	all := 7
	for after := (store.Mark{}); ; {
		page, err := r.shard.AllSchedules(t.Context(), 2, after)
		r.must(err)
		if page.Now.IsZero() || page.All != all || page.Zones != "" {
			t.Errorf("got %+v", page)
		}
		for _, one := range page.Schedules {
			name := one.Schedule.Name
			got = append(got, name)
			if one.Err != nil || one.Schedule.Topic != r.topic || one.Schedule.Spec.Every != time.Hour || len(one.Schedule.Message.Body) > 0 || one.Look.IsZero() != (name == "n0") {
				t.Errorf("got %+v", one)
			}
		}
		if after = page.Next; after == (store.Mark{}) {
			break
		}
		if len(got) == 4 {
			r.must(r.shard.DeleteSchedule(t.Context(), r.topic, got[3], store.AnyRevision))
			all--
		}
	}
	if want := append(names[1:], "n0"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The first time that was not made is behind the cursor, and none that is noted as made; none is left of a count that is used up, or in a pause.
func TestUnmade(t *testing.T) {
	t.Parallel()
	noon := time.Date(2090, 1, 1, 12, 0, 0, 0, time.UTC)
	after := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	made := []store.Made{{At: after(1)}, {At: after(2)}, {At: after(4)}}
	for _, test := range []struct {
		spec  calendar.Spec
		count int
		state store.ScheduleState
		want  time.Time
	}{
		{spec: calendar.Spec{Every: time.Hour}, state: store.ScheduleState{Cursor: noon}, want: after(1)},
		{spec: calendar.Spec{Every: time.Hour}, state: store.ScheduleState{Cursor: noon, Occurrences: made}, want: after(3)},
		{spec: calendar.Spec{Every: time.Hour}, count: 4, state: store.ScheduleState{Cursor: noon, Made: 3}, want: after(1)},
		{spec: calendar.Spec{Every: time.Hour}, count: 3, state: store.ScheduleState{Cursor: noon, Made: 3}},
		{spec: calendar.Spec{Every: time.Hour}, state: store.ScheduleState{Cursor: noon, Paused: noon}},
		{spec: calendar.Spec{Every: time.Hour, Until: after(2)}, state: store.ScheduleState{Cursor: after(2)}},
		{spec: calendar.Spec{Every: time.Hour, Until: after(2)}, state: store.ScheduleState{Cursor: after(1), Occurrences: made}},
		{spec: calendar.Spec{Cron: "nonsense"}, state: store.ScheduleState{Cursor: noon}},
	} {
		s := store.Schedule{Spec: test.spec, Count: test.count}
		if got := s.Unmade(&test.state); !got.Equal(test.want) {
			t.Errorf("%+v, %+v: got %v, want %v", test.spec, test.state, got, test.want)
		}
	}
}

// A schedule stands as its state says, and is behind only once its grace is over.
func TestStanding(t *testing.T) {
	t.Parallel()
	noon := time.Date(2090, 1, 1, 12, 0, 0, 0, time.UTC)
	hourly := calendar.Spec{Every: time.Hour}
	for name, test := range map[string]struct {
		spec  calendar.Spec
		state store.ScheduleState
		err   error
		want  store.Standing
	}{
		"next is to come":            {spec: hourly, state: store.ScheduleState{Cursor: noon}, want: store.GoesOn},
		"next is late by its grace":  {spec: calendar.Spec{Every: time.Minute}, state: store.ScheduleState{Cursor: noon.Add(-time.Minute - time.Second)}, want: store.GoesOn},
		"next is late":               {spec: hourly, state: store.ScheduleState{Cursor: noon.Add(-time.Hour - time.Second)}, want: store.IsBehind},
		"next is late in a pause":    {spec: hourly, state: store.ScheduleState{Cursor: noon.Add(-time.Hour - time.Second), Paused: noon}, want: store.IsPaused},
		"next cannot be made":        {spec: hourly, state: store.ScheduleState{Cursor: noon.Add(-time.Hour - time.Second), Refused: noon}, want: store.IsRefused},
		"its times have passed":      {spec: calendar.Spec{At: []time.Time{noon}}, state: store.ScheduleState{Cursor: noon}, want: store.IsOver},
		"its last is made, and next": {spec: calendar.Spec{At: []time.Time{noon.Add(time.Hour)}}, state: store.ScheduleState{Cursor: noon.Add(time.Hour), Occurrences: []store.Made{{At: noon.Add(time.Hour)}}}, want: store.GoesOn},
		"its rule is foreign":        {spec: calendar.Spec{Cron: "nonsense"}, want: store.Unreadable},
		"the carrier cannot read it": {spec: hourly, state: store.ScheduleState{Cursor: noon.Add(-3 * time.Hour), Unread: noon}, want: store.Unreadable},
		"its record is foreign":      {spec: hourly, err: errors.New("foreign"), want: store.Unreadable},
	} {
		l := store.Listed{Schedule: store.Schedule{Spec: test.spec}, State: test.state, Err: test.err}
		if got, err := l.Standing(noon); got != test.want || (err != nil) != (got == store.Unreadable) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
