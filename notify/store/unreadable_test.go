package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// damage has Redis hold something else of what was put of a schedule.
func (r *recurring) damage(name, rule string) {
	r.t.Helper()
	r.must(r.db.Client().HSet(r.t.Context(), r.db.KeysOf(r.topic).Rules(r.topic), name, rule).Err())
}

// A schedule that the carrier cannot read is noted, and counted each time; until it is put again, paused or resumed, or can be read.
func TestUnread(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	r.put(hourly(r, "daily"))
	fill := func(fault error) store.ScheduleState {
		t.Helper()
		of := store.DueSchedule{Listed: store.Listed{Schedule: *hourly(r, "daily"), State: r.state("daily")}}
		if made := r.due(store.Fill{Of: of, Cursor: of.State.Cursor, Fault: fault, Next: r.base}).Made; !slices.Equal(made, []string{"made"}) {
			t.Fatalf("got %v", made)
		}
		return r.state("daily")
	}
	unread := func() int64 {
		t.Helper()
		sums, err := r.shard.ScheduleSums(t.Context())
		r.must(err)
		return sums.Unread
	}
	damaged := errors.New("damaged")
	before := r.state("daily")
	first := fill(damaged)
	if first.Unread.IsZero() || first.Revision != before.Revision || !first.Cursor.Equal(before.Cursor) || unread() != 1 {
		t.Errorf("got %+v, counted %d", first, unread())
	}
	storetest.Eventually(t, "a millisecond has passed", func() bool {
		now, err := r.db.Now(t.Context())
		r.must(err)
		return now.Sub(first.Unread) > time.Millisecond
	})
	if again := fill(damaged); !again.Unread.Equal(first.Unread) || unread() != 2 {
		t.Errorf("since %s, then since %s, counted %d", first.Unread, again.Unread, unread())
	}
	if state := fill(nil); !state.Unread.IsZero() || unread() != 2 {
		t.Errorf("got %+v, counted %d", state, unread())
	}
	for what, change := range map[string]func(){
		"put":    func() { s := hourly(r, "daily"); s.Message.Body = []byte("another"); r.put(s) },
		"paused": func() { r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision)) },
	} {
		r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
		r.put(hourly(r, "daily"))
		if fill(damaged).Unread.IsZero() {
			t.Errorf("%s: it is not noted before", what)
		}
		if change(); !r.state("daily").Unread.IsZero() {
			t.Errorf("%s: it is still noted", what)
		}
	}
	if unread() != 4 {
		t.Errorf("counted %d", unread())
	}
}

// Whatever Redis holds of a schedule that cannot be read, it is put again, from now on; and paused, resumed and deleted.
func TestPutOverUnreadable(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	for i, rule := range []string{"what", "", "7", `"x"`, "null", `{"at":7}`, `{"at":[{}]}`, `{"cron":{}}`, `{"every":null}`, `{"every":3600}` + "\nno record", "[[[[", `{"cron":true}`} {
		name := fmt.Sprint("n", i)
		_, before := r.put(hourly(r, name))
		r.damage(name, rule)
		r.must(r.shard.PauseSchedule(t.Context(), r.topic, name, store.AnyRevision))
		r.must(r.shard.ResumeSchedule(t.Context(), r.topic, name, store.AnyRevision))
		outcome, revision := r.put(hourly(r, name))
		if state := r.state(name); outcome != store.OutcomeReplaced || revision <= before || !state.Paused.IsZero() {
			t.Errorf("%q: %s, %+v", rule, outcome, state)
		}
		r.damage(name, rule)
		r.must(r.shard.DeleteSchedule(t.Context(), r.topic, name, store.AnyRevision))
	}
	if all := r.due().Due; len(all) != 0 {
		t.Errorf("got %+v", all)
	}
}
