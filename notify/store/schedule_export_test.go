package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// exported returns the schedules of a shard by their names, each of which is in a page.
func exported(t *testing.T, shard store.Shard) map[string]store.Listed {
	t.Helper()
	all := make(map[string]store.Listed)
	for cursor := "0"; ; {
		page, err := shard.ExportSchedules(t.Context(), cursor)
		storetest.Must(t, err)
		for _, l := range page.Schedules {
			all[l.Schedule.Name] = l
		}
		if cursor = page.Next; cursor == "0" {
			return all
		}
	}
}

// All schedules of a shard are exported, those that do not fit into a reply and those that cannot be read, too.
func TestExportSchedules(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	for i := range 200 {
		r.put(hourly(r, fmt.Sprint("small", i)))
	}
	for i := range 30 {
		large := hourly(r, fmt.Sprint("large", i))
		large.Message.Body = []byte(strings.Repeat("x", 1<<20))
		r.put(large)
	}
	r.put(hourly(r, "paused"))
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "paused", store.AnyRevision))
	r.put(hourly(r, "foreign"))
	r.put(hourly(r, "halved"))
	client, keys := r.db.Client(), r.db.KeysOf(r.topic)
	r.must(client.HSet(t.Context(), keys.Rules(r.topic), "foreign", "foreign").Err())
	r.must(client.HDel(t.Context(), keys.Rules(r.topic), "halved").Err())
	all := exported(t, r.shard)
	if len(all) != 200+30+3 || all["foreign"].Err == nil || all["halved"].Err == nil || all["paused"].State.Paused.IsZero() {
		t.Errorf("got %d: %v, %v, %+v", len(all), all["foreign"].Err, all["halved"].Err, all["paused"])
	}
	for name, l := range all {
		if want := hourly(r, name); strings.HasPrefix(name, "small") && !cmp.Equal(*want, withoutGrace(l.Schedule)) || strings.HasPrefix(name, "large") && len(l.Schedule.Message.Body) != 1<<20 {
			t.Errorf("%s is %+v", name, l)
		}
	}
	listed := make(map[string]store.Listed)
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := r.shard.Schedules(t.Context(), r.topic, cursor)
		r.must(err)
		for _, l := range page {
			listed[l.Schedule.Name] = l
		}
		cursor = next
	}
	for name, l := range all {
		if other := listed[name]; !l.Schedule.Same(&other.Schedule) || !cmp.Equal(l.State, other.State) || (l.Err == nil) != (other.Err == nil) || len(listed) != len(all) {
			t.Errorf("%s is listed as %.500s", name, fmt.Sprint(other))
		}
	}
	r.must(client.Del(t.Context(), keys.Schedules()).Err())
	r.must(client.Set(t.Context(), keys.Schedules(), "foreign", 0).Err())
	if page, err := r.shard.ExportSchedules(t.Context(), "0"); err != nil || len(page.Schedules) != 1 || page.Schedules[0].Err == nil {
		t.Errorf("got %+v, %v", page, err)
	}
}

func withoutGrace(s store.Schedule) store.Schedule {
	s.Grace = 0
	return s
}

// A schedule that is restored goes on behind what it made: that is never made again, and what waits as it was made is withdrawn with it.
func TestRestoreSchedule(t *testing.T) {
	t.Parallel()
	from, to := openRecurring(t), openRecurring(t)
	from.put(hourly(from, "a"))
	from.fills(from.only(), 1, 2, 3)
	restored := func(r *recurring) (store.Outcome, error) {
		l := exported(t, from.shard)["a"]
		return r.shard.RestoreSchedule(t.Context(), &l.Schedule, &store.ScheduleRestore{ScheduleState: l.State})
	}
	var messages []notify.Message
	for _, made := range from.state("a").Occurrences[:2] { // the third ended
		messages = append(messages, notify.Message{
			Topic: to.topic, ID: hourly(to, "a").OccurrenceID(made.At), Due: made.Due, Body: []byte("x"),
			Headers: map[string]string{store.HeaderSchedule: "a"}, Restore: &notify.Restore{Published: made.Published},
		})
	}
	storetest.Publish(t, to.db, messages...)
	if outcome, err := restored(to); outcome != store.OutcomeCreated || err != nil {
		t.Fatal(outcome, err)
	}
	before := to.state("a")
	want := from.state("a")
	want.Occurrences[2].Off = true
	if want.Revision = before.Revision; !cmp.Equal(want, before) || before.Revision == 0 {
		t.Errorf("(- there, + here)\n%s", cmp.Diff(want, before))
	}
	if outcome, err := restored(to); outcome != store.OutcomeKept || err != nil || !cmp.Equal(before, to.state("a")) {
		t.Errorf("once more: %s, %v", outcome, err)
	}
	to.fills(to.only(), 1, 2, 3, 4)
	if got := to.scheduled(); !cmp.Equal(got, []string{to.id("a", 1), to.id("a", 2), to.id("a", 4)}) || to.state("a").Taken != 0 {
		t.Errorf("there are %v", got)
	}
	to.must(to.shard.DeleteSchedule(t.Context(), to.topic, "a", store.AnyRevision))
	if got := to.scheduled(); len(got) != 0 {
		t.Errorf("there are %v, and the schedule is deleted", got)
	}
	other := hourly(to, "a")
	other.Message.Body = []byte("mine")
	to.put(other)
	before = to.state("a")
	if outcome, err := restored(to); outcome != store.OutcomeRefused || !errors.Is(err, notify.ErrInvalid) || !cmp.Equal(before, to.state("a")) {
		t.Errorf("in place of another: %s, %v", outcome, err)
	}
}

// What a paused schedule restores, no carrier looks at.
func TestRestorePaused(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "a")
	state := store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: time.Now(), Paused: time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()}}
	if outcome, err := r.shard.RestoreSchedule(t.Context(), s, &state); outcome != store.OutcomeCreated || err != nil {
		t.Fatal(outcome, err)
	}
	if f := r.due(); !f.Whole || !r.state("a").Paused.Equal(state.Paused) {
		t.Errorf("got %+v, %+v", f, r.state("a"))
	}
}

// What was made by older rules of time zones is made anew: at once where newer ones were in use, else by the next carrier that has newer ones.
func TestRestoreOlderZones(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	restore := func(name, version string) {
		t.Helper()
		s := &store.Schedule{Topic: r.topic, Name: name, Spec: calendar.Spec{Cron: "0 8 * * *", Zone: "Europe/Berlin"}}
		s.Message.Body = []byte("x")
		made := store.Made{At: r.at(1), Due: r.at(1), Published: r.base.AddDate(-90, 0, 0)}
		storetest.Publish(t, r.db, notify.Message{
			Topic: r.topic, ID: s.OccurrenceID(made.At), Due: made.Due, Body: []byte("x"),
			Headers: map[string]string{store.HeaderSchedule: name}, Restore: &notify.Restore{Published: made.Published},
		})
		state := store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: made.At, Made: 1, Occurrences: []store.Made{made}}, Zones: version}
		storetest.Must(t, storetest.ErrOf(r.shard.RestoreSchedule(t.Context(), s, &state)))
	}
	restore("first", "2025b")
	if got := r.scheduled(); len(got) != 1 {
		t.Fatalf("there are %v", got)
	}
	r.renew("2026a")
	if got := r.scheduled(); len(got) != 0 || r.state("first").Made != 0 {
		t.Errorf("it is not made anew: %v", got)
	}
	restore("older", "2025b")
	restore("newer", "2026b")
	restore("same", "2026a")
	if got := r.scheduled(); len(got) != 2 || len(r.state("older").Occurrences) != 0 || len(r.state("newer").Occurrences) != 1 {
		t.Errorf("there are %v", got)
	}
}
