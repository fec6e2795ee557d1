package store_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// hour returns a whole hour, some hours before now.
func (r *recurring) hour(before int) time.Time {
	r.t.Helper()
	now, err := r.db.Now(r.t.Context())
	r.must(err)
	return now.UTC().Truncate(time.Hour).Add(-time.Duration(before) * time.Hour)
}

// run runs a schedule, and returns its message.
func (r *recurring) run(name string) notify.Info {
	r.t.Helper()
	id, placed, err := r.shard.RunSchedule(r.t.Context(), r.topic, name)
	r.must(err)
	info, err := storetest.Inspector(r.t, r.db).Inspect(r.t.Context(), r.topic, id)
	r.must(err)
	if !info.Due.Equal(placed.Due) {
		r.t.Errorf("%s is due at %v, answered %v", id, info.Due, placed.Due)
	}
	return info
}

// backfill makes occurrences, and returns their ids, with a ! behind those that were taken.
func (r *recurring) backfill(name string, from, to time.Time) string {
	r.t.Helper()
	made, err := r.shard.Backfill(r.t.Context(), store.Backfill{Topic: r.topic, Name: name, From: from, To: to})
	r.must(err)
	return hoursOf(made, from)
}

// hoursOf returns at which hours occurrences are, with a ! behind those that were taken.
func hoursOf(made []store.Made, from time.Time) string {
	var all []string
	for _, one := range made {
		text := strings.TrimSuffix(one.At.Sub(from).String(), "0m0s")
		if one.Taken {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// claimed claims messages, and returns them.
func (r *recurring) claimed(most int) []subscribers.Delivery {
	r.t.Helper()
	all, err := subscriberstest.Claimer(r.t, r.db).Claim(r.t.Context(), r.topic, subscribers.ClaimOptions{Max: most, Lease: time.Hour})
	r.must(err)
	return all
}

// A run publishes the message of a schedule at once, with the headers of an occurrence, and changes nothing of the schedule; also while that is paused.
func TestRunSchedule(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "daily")
	s.Jitter, s.Count, s.Message.Headers = time.Minute, 2, map[string]string{"Shop": "7"}
	r.put(s)
	last := r.hour(1)
	of := r.only()
	r.due(store.Fill{Of: of, Cursor: r.at(2), Next: r.base, Occurrences: []store.Occurrence{{At: last}, {At: r.at(2)}}})
	before := r.state("daily")
	info := r.run("daily")
	if !regexp.MustCompile(`^daily~\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(info.ID) || info.State != notify.Ready || string(info.Body) != "x" {
		t.Errorf("got %+v", info)
	}
	want := map[string]string{"Shop": "7", store.HeaderSchedule: "daily", store.HeaderScheduled: strings.TrimPrefix(info.ID, "daily~"), store.HeaderPrevious: last.Format(time.RFC3339)}
	storetest.Same(t, "headers", want, info.Headers)
	storetest.Same(t, "the schedule changed", before, r.state("daily"))
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if again := r.run("daily"); again.ID == info.ID || again.State != notify.Ready {
		t.Errorf("while it is paused: %+v", again)
	}
	_, _, err := r.shard.RunSchedule(t.Context(), r.topic, "none")
	if !errors.Is(err, store.ErrNoSchedule) {
		t.Errorf("of none: %v", err)
	}
}

// Runs of one millisecond have ids of their own.
func TestRunAtOnce(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	r.put(hourly(r, "daily"))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 10 {
				if _, _, err := r.shard.RunSchedule(t.Context(), r.topic, "daily"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if c, err := storetest.Count(r.db, r.topic); err != nil || c.Ready != 200 {
		t.Errorf("%+v, %v; want 200 that are ready", c, err)
	}
}

// What a schedule would drop beside one that is under way waits if somebody asked for it. A broadcast is one.
func TestByHandWaits(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	skip := hourly(r, "skip")
	skip.Overlap = store.OverlapSkip
	r.put(skip)
	if first, second := r.run("skip"), r.run("skip"); first.State != notify.Ready || second.State != notify.Blocked {
		t.Errorf("got %v and %v", first.State, second.State)
	}
	drops := hourly(r, "drops")
	drops.Message.Key, drops.Message.IfBusy = "acct-7", "drop"
	r.put(drops)
	storetest.Is(t, "made", r.backfill("drops", r.hour(3), r.hour(0)), "0s 1h 2h")
	if c, err := storetest.Count(r.db, r.topic); err != nil || c.Ready != 2 || c.Blocked != 3 {
		t.Errorf("%+v, %v; want one of each key that is ready, and the others behind them", c, err)
	}
	all := hourly(r, "all")
	all.Message.Broadcast = true
	r.put(all)
	if info := r.run("all"); !info.Broadcast || info.State != notify.Scheduled {
		t.Errorf("got %+v", info)
	}
}

// A backfill makes what is from one time on and before another, the oldest first, and due at once. It changes nothing of the schedule. What it made stays
// taken after its end, so that a repeat makes the rest, wherever it was broken off.
func TestBackfill(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "daily")
	s.Count, s.Message.TTL = 1, time.Minute
	r.put(s)
	r.fills(r.only(), 1)
	before, from := r.state("daily"), r.hour(100)
	dry := store.Backfill{Topic: r.topic, Name: "daily", From: from, To: from.Add(3 * time.Hour), DryRun: true}
	if made, err := r.shard.Backfill(t.Context(), dry); err != nil || hoursOf(made, from) != "0s 1h 2h" {
		t.Errorf("it would make %v, %v", made, err)
	}
	storetest.Is(t, "behind the first hour, and up to the third, it made", r.backfill("daily", from.Add(time.Nanosecond), from.Add(2*time.Hour+1)), "59m59.999999999s 1h59m59.999999999s")
	first := r.claimed(2)
	for _, one := range first {
		r.must(one.Ack(t.Context()))
	}
	want := map[string]string{store.HeaderSchedule: "daily", store.HeaderScheduled: from.Add(time.Hour).Format(time.RFC3339), store.HeaderPrevious: from.Format(time.RFC3339)}
	if diff := cmp.Diff(want, first[0].Headers); diff != "" || first[0].ID != "daily~"+want[store.HeaderScheduled] {
		t.Errorf("%s: %s", first[0].ID, diff)
	}
	if made, err := r.shard.Backfill(t.Context(), dry); err != nil || hoursOf(made, from) != "0s 1h! 2h!" {
		t.Errorf("it would make %v, %v", made, err)
	}
	storetest.Is(t, "the rest is", r.backfill("daily", from, from.Add(4*time.Hour)), "0s 1h! 2h! 3h")
	rest := r.claimed(9)
	if len(rest) != 2 || rest[0].ID != "daily~"+from.Format(time.RFC3339) || rest[1].ID < rest[0].ID {
		t.Errorf("claimed %+v", rest)
	}
	storetest.Same(t, "the schedule changed", before, r.state("daily"))
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	made, err := r.shard.Backfill(t.Context(), store.Backfill{Topic: r.topic, Name: "daily", From: r.hour(2)})
	if n := len(made); err != nil || n < 3 || n > 4 { // the hour may end meanwhile
		t.Errorf("up to now it made %v, %v", made, err)
	}
}

// As many as may be are made in several calls, the oldest first; one more is refused, with how many there are, and what may be made.
func TestLargeBackfill(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "tick")
	s.Spec.Every = time.Second
	r.put(s)
	from := r.hour(20)
	b := store.Backfill{Topic: r.topic, Name: "tick", From: from, To: from.Add((store.MaxBackfill + 1) * time.Second)}
	_, err := r.shard.Backfill(t.Context(), b)
	if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "there are 1001 occurrences") || !strings.Contains(err.Error(), "make those before "+from.Add(1000*time.Second).Format(time.RFC3339)+" first") {
		t.Errorf("one too many: %v", err)
	}
	b.From = from.AddDate(-1, 0, 0)
	if _, err := r.shard.Backfill(t.Context(), b); err == nil || !strings.Contains(err.Error(), "there are 100000 or more occurrences") {
		t.Errorf("far too many: %v", err)
	}
	if c, err := storetest.Count(r.db, r.topic); err != nil || c.Ready != 0 {
		t.Errorf("%+v, %v; want none", c, err)
	}
	b.From = from.Add(time.Second)
	if made, err := r.shard.Backfill(t.Context(), b); err != nil || len(made) != store.MaxBackfill || slices.ContainsFunc(made, func(m store.Made) bool { return m.Taken }) {
		t.Errorf("made %d, %v", len(made), err)
	}
	claimed := r.claimed(200)
	for i, one := range claimed {
		if want := "tick~" + b.From.Add(time.Duration(i)*time.Second).Format(time.RFC3339); one.ID != want {
			t.Fatalf("claimed %s, want %s", one.ID, want)
		}
	}
}

// What is wrong with a backfill is said, and nothing is made.
func TestWrongBackfill(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "daily")
	s.Spec = calendar.Spec{Every: time.Second}
	r.put(s)
	put := r.state("daily").Cursor
	storetest.Eventually(t, "two occurrences are not made in time", func() bool {
		now, err := r.db.Now(t.Context())
		return err == nil && now.After(put.Add(2*time.Second))
	})
	for want, b := range map[string]store.Backfill{
		"from: it is missing":         {To: put},
		"it is not before to":         {From: put, To: put},
		"it is not past":              {From: put, To: r.at(0)},
		"is not made yet, nor missed": {From: put, To: put.Add(2 * time.Second)},
		"the occurrence of " + put.Add(time.Second).Format(time.RFC3339): {From: put.Add(-time.Minute)},
	} {
		b.Topic, b.Name = r.topic, "daily"
		made, err := r.shard.Backfill(t.Context(), b)
		if len(made) != 0 || !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v; want %s", made, err, want)
		}
	}
	storetest.Is(t, "up to what is not made it made", r.backfill("daily", put, put.Add(time.Second)), "0s")
	storetest.Fails(t, "of none", storetest.ErrOf(r.shard.Backfill(t.Context(), store.Backfill{Topic: r.topic, Name: "none", From: put})), store.ErrNoSchedule)
}

// Where a key is foreign it is said how far a backfill came, and neither it nor a run leaves anything half made.
func TestByHandForeign(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "daily")
	s.Message = record.Record{Body: []byte(strings.Repeat("x", 3<<20))} // two calls
	r.put(s)
	from := r.hour(9)
	keys := r.db.KeysOf(r.topic)
	r.must(r.db.Client().Set(t.Context(), keys.Ready(r.topic), "foreign", 0).Err())
	if _, _, err := r.shard.RunSchedule(t.Context(), r.topic, "daily"); err == nil || !strings.Contains(err.Error(), "run the schedule daily of bills: a key of the topic is foreign") {
		t.Errorf("a run: %v", err)
	}
	made, err := r.shard.Backfill(t.Context(), store.Backfill{Topic: r.topic, Name: "daily", From: from, To: from.Add(4 * time.Hour)})
	if len(made) != 0 || err == nil || !strings.Contains(err.Error(), "of 4 occurrences 0 were made or taken; repeat the backfill") {
		t.Errorf("made %v, %v", made, err)
	}
	r.must(r.db.Client().Del(t.Context(), keys.Ready(r.topic)).Err())
	storetest.Is(t, "made", r.backfill("daily", from, from.Add(4*time.Hour)), "0s 1h 2h 3h")
}
