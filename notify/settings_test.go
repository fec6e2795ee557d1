package notify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// set changes settings of a topic and returns all its settings.
func set(t *testing.T, pub client, topic string, c notify.SettingsChange) notify.TopicSettings {
	t.Helper()
	got, err := pub.Set(t.Context(), topic, c)
	storetest.Must(t, err)
	again, err := pub.Settings(t.Context(), topic)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("%s: set (-), looked at (+): %s, %v", topic, diff, err)
	}
	return got
}

// A setting of the topic goes before one of all topics, and that before the default.
func TestSettings(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	want := notify.TopicSettings{Settings: store.DefaultSettings}
	check := func(what string, got notify.TopicSettings) {
		t.Helper()
		storetest.Same(t, what, want, got)
	}
	look := func() notify.TopicSettings {
		t.Helper()
		got, err := pub.Settings(t.Context(), topic)
		storetest.Must(t, err)
		return got
	}
	check("nothing is set", look())

	set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(3), Lease: new(time.Minute)})
	want.Attempts, want.Lease = 3, time.Minute
	check("set for all", look())

	want.Attempts, want.BackoffMax, want.Own = 7, time.Hour, []string{"attempts", "backoff_max"}
	check("set for the topic", set(t, pub, topic, notify.SettingsChange{Attempts: new(7), BackoffMax: new(time.Hour)}))

	want.Paused, want.Own = true, []string{"attempts", "backoff_max", "paused"}
	pause(t, pub)
	check("paused", look())

	want.Attempts, want.Paused, want.Own = 3, false, []string{"backoff_max"}
	check("attempts as for all, and resumed", set(t, pub, topic, notify.SettingsChange{Default: []string{"attempts", "paused"}}))

	set(t, pub, notify.AllTopics, notify.SettingsChange{Default: []string{"attempts", "lease"}})
	want.Attempts, want.Lease = store.DefaultSettings.Attempts, store.DefaultSettings.Lease
	check("nothing is set for all", look())

	want = notify.TopicSettings{Settings: store.DefaultSettings}
	check("nothing is set again", set(t, pub, topic, notify.SettingsChange{Default: []string{"backoff_max"}}))
}

// Whether something is on is set for a topic against what is set for all, either way.
func TestOffForATopic(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	for _, all := range []bool{true, false} {
		set(t, pub, notify.AllTopics, notify.SettingsChange{ArchiveAcked: &all, History: &all})
		if got := set(t, pub, topic, notify.SettingsChange{ArchiveAcked: new(!all), History: new(!all)}); got.ArchiveAcked == all || got.History == all || len(got.Own) != 2 {
			t.Errorf("against %v, set for all, it has %+v", all, got)
		}
		got := set(t, pub, topic, notify.SettingsChange{Default: []string{"archive_acked", "history"}})
		if got.ArchiveAcked != all || got.History != all || len(got.Own) != 0 {
			t.Errorf("without own settings it has %+v, want %v, as set for all", got, all)
		}
	}
}

// All faults are reported, each with its field, and nothing is changed.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	pub, s := open(t)
	set(t, pub, topic, notify.SettingsChange{BackoffMax: new(time.Minute)})
	kept := func() map[string]string {
		t.Helper()
		all, err := s.Client().HGetAll(t.Context(), s.KeysOf(topic).Topics()).Result()
		storetest.Must(t, err)
		return all
	}
	before := kept()
	for _, test := range []struct {
		name, topic string
		change      notify.SettingsChange
		fields      []string
	}{
		{"of no topic", "a b", notify.SettingsChange{Attempts: new(1)}, []string{"topic"}},
		{
			"out of range", topic,
			notify.SettingsChange{Attempts: new(-1), Lease: new(time.Millisecond), BackoffMin: new(-time.Second), BackoffMax: new(9000 * time.Hour), Paused: new(true)},
			[]string{"attempts", "lease", "backoff_min", "backoff_max"},
		},
		{"zero", topic, notify.SettingsChange{Attempts: new(0), Lease: new(time.Duration(0)), OnDead: new(""), Rate: new(record.Rate(0))}, []string{"attempts", "lease", "on_dead", "rate"}},
		{"the default of none", topic, notify.SettingsChange{Default: []string{"colour", "paused_until", "lease"}}, []string{"colour", "paused_until"}},
		{"too large", topic, notify.SettingsChange{Attempts: new(1_000_001), Lease: new(25 * time.Hour)}, []string{"attempts", "lease"}},
		{"less than a millisecond", topic, notify.SettingsChange{BackoffMin: new(time.Microsecond)}, []string{"backoff_min"}},
		{"above what is set", topic, notify.SettingsChange{BackoffMin: new(time.Hour), Attempts: new(1)}, []string{"backoff_max"}},
		{"above the default", notify.AllTopics, notify.SettingsChange{BackoffMin: new(time.Hour)}, []string{"backoff_max"}},
		{"upside down", topic, notify.SettingsChange{BackoffMin: new(2 * time.Second), BackoffMax: new(time.Second)}, []string{"backoff_max"}},
		{"a pause of all", notify.AllTopics, notify.SettingsChange{Paused: new(true), Attempts: new(-1)}, []string{"attempts", "paused"}},
	} {
		_, err := pub.Set(t.Context(), test.topic, test.change)
		var fields []string
		for _, f := range fault.All(err) {
			fields = append(fields, f.Field)
		}
		if !slices.Equal(fields, test.fields) {
			t.Errorf("%s: %v tells of %q, want %q", test.name, err, fields, test.fields)
		}
	}
	storetest.Same(t, "something was changed", before, kept())
}

// Foreign settings are reported, hold up nothing, and are gone with the next change.
func TestForeignSettings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x", " attempts=x", " attempts=0", " attempts=1000001", " lease=99999999999999999999", " lease=0", " lease=5x", " colour=3", " paused=2",
		" paused=1x", " attempts=1.5", " backoff_min=99999999999999999999 backoff_max=99999999999999999999", "=", " =",
		" " + strings.Repeat("a", 1<<16),
	} {
		pub, db := open(t)
		do(t, db, []any{"HSET", db.KeysOf(topic).Topics(), topic + ":settings", text})
		storetest.Fails(t, fmt.Sprintf("%.20q", text), storetest.ErrOf(pub.Settings(t.Context(), topic)), store.ErrSettings)
		publish(t, pub, message("a", time.Time{}))
		claimer := subscriberstest.Claimer(t, db)
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1})
		if err != nil || len(ds) != 1 || ds[0].Lease != store.DefaultSettings.Lease {
			t.Fatalf("%.20q: claimed %+v, %v", text, ds, err)
		}
		out, err := ds[0].Nack(t.Context(), subscribers.ByBackoff, "no")
		if err != nil || out.State != notify.Scheduled || time.Until(out.Due) > storetest.Deadline {
			t.Errorf("%.20q: %+v, %v", text, out, err)
		}
		if got := set(t, pub, topic, notify.SettingsChange{Lease: new(time.Second)}); got.Lease != time.Second || len(got.Own) != 1 {
			t.Errorf("%.20q: %+v", text, got)
		}
	}
	pub, db := open(t)
	do(t, db, []any{"HSET", db.KeysOf(topic).Topics(), topic + ":settings", " attempts=5 lease=soon"})
	if got := set(t, pub, topic, notify.SettingsChange{Lease: new(time.Second)}); got.Attempts != 5 || len(got.Own) != 2 {
		t.Errorf("what is readable is lost: %+v", got)
	}
	do(t, db, []any{"HDEL", db.KeysOf(topic).Topics(), topic + ":settings"}, []any{"HSET", db.KeysOf(topic).Topics(), "*:settings", " paused=1 lease=x"})
	pause(t, pub) // a change is made, whatever stands for all topics
	resume(t, pub)
	if got := set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(3)}); got.Paused || got.Lease != store.DefaultSettings.Lease {
		t.Errorf("set for all: %+v", got)
	}
	do(t, db, []any{"DEL", db.KeysOf(topic).Topics()}, []any{"SET", db.KeysOf(topic).Topics(), "x"})
	if _, err := pub.Settings(t.Context(), topic); err == nil || !strings.Contains(err.Error(), "foreign") {
		t.Errorf("a foreign key: %v", err)
	}
	if _, err := pub.Set(t.Context(), topic, notify.SettingsChange{Attempts: new(1)}); err == nil || !strings.Contains(err.Error(), "foreign") {
		t.Errorf("a foreign key: %v", err)
	}
}

// A topic that was never used may have settings, and is known then.
func TestSettingsOfAnUnusedTopic(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	names := func() []string {
		t.Helper()
		all, err := db.Client().ZRange(t.Context(), db.KeysOf(topic).TopicNames(), 0, -1).Result()
		storetest.Must(t, err)
		return all
	}
	set(t, pub, notify.AllTopics, notify.SettingsChange{Attempts: new(3)})
	set(t, pub, topic, notify.SettingsChange{Attempts: new(4)})
	if got := names(); !slices.Equal(got, []string{topic}) {
		t.Errorf("known are %q", got)
	}
	set(t, pub, topic, notify.SettingsChange{Default: []string{"attempts"}})
	if got := names(); len(got) > 0 {
		t.Errorf("known are %q still", got)
	}
}

// Missing settings are filled in; existing ones stay.
func TestFillSettings(t *testing.T) {
	t.Parallel()
	_, db := open(t)
	storetest.Set(t, db, notify.AllTopics, notify.SettingsChange{Attempts: new(3)})
	got, err := db.SetForAll(t.Context(), notify.SettingsChange{Attempts: new(9), Lease: new(time.Minute)}, true)
	if err != nil || got.Attempts != 3 || got.Lease != time.Minute {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The wait after a rejection is random, and its bound doubles with each attempt.
func TestBackoffOfATopic(t *testing.T) {
	t.Parallel()
	const least, most = 10 * time.Second, 30 * time.Second
	pub, db := open(t)
	set(t, pub, topic, notify.SettingsChange{BackoffMin: new(least), BackoffMax: new(most), Attempts: new(100)})
	publish(t, pub, message("a", time.Time{}))
	var longest, shortest time.Duration = 0, most
	for attempt := 1; attempt <= 40; attempt++ {
		d := claim(t, db, 1)[0]
		before, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		out, err := d.Nack(t.Context(), subscribers.ByBackoff, "no")
		if err != nil || out.Attempts != attempt {
			t.Fatal(out, err)
		}
		wait := out.Due.Sub(before.Truncate(time.Millisecond))
		bound := min(least<<min(attempt-1, 2), most) + storetest.Deadline/10
		if wait < 0 || wait > bound {
			t.Errorf("attempt %d: it waits %v, want up to %v", attempt, wait, bound)
		}
		longest, shortest = max(longest, wait), min(shortest, wait)
		storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "a", 0)))
	}
	if longest-shortest < most/4 { // of 40 draws: once in 1e20
		t.Errorf("all wait from %v to %v: they are not drawn", shortest, longest)
	}
}

// The limit of attempts, and the backoff, are those of the message, else of its topic, else of all topics, else the built-in ones, wherever
// an attempt fails.
func TestWhichSettingsCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ message, own, common, limit int }{{2, 4, 5, 2}, {0, 3, 4, 3}, {0, 0, 2, 2}, {0, 0, 0, 10}} {
		pub, db := open(t)
		carry(t, db)
		for of, limit := range map[string]int{topic: test.own, notify.AllTopics: test.common} {
			if limit > 0 {
				set(t, pub, of, notify.SettingsChange{Attempts: new(limit)})
			}
		}
		for _, id := range []string{"refused", "expired"} {
			m := message(id, time.Time{})
			m.MaxAttempts = test.message
			publish(t, pub, m)
			fails := func() bool {
				ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Lease: record.MinLease})
				if err == nil && len(ds) == 1 && id == "refused" {
					_, _ = ds[0].Nack(t.Context(), 0, "no") // a slow machine lets its lease end
				}
				return err == nil && stateOf(t, pub, id) == notify.Dead
			}
			storetest.Eventually(t, "it dies", fails)
			if info, err := pub.Inspect(t.Context(), topic, id); err != nil || info.Attempts != test.limit {
				t.Errorf("%+v: %s died of %q after %d, %v", test, id, info.Reason, info.Attempts, err)
			}
		}
	}
	pub, db := open(t)
	waits := func() time.Duration {
		t.Helper()
		publish(t, pub, message("a", time.Time{}))
		d := claim(t, db, 1)[0]
		out, err := d.Nack(t.Context(), subscribers.ByBackoff, "no")
		if _, cancelled := pub.Cancel(t.Context(), topic, "a"); err != nil || cancelled != nil {
			t.Fatal(err, cancelled)
		}
		return time.Until(out.Due)
	}
	const long = 100 * 24 * time.Hour
	set(t, pub, notify.AllTopics, notify.SettingsChange{BackoffMin: new(long), BackoffMax: new(long)})
	if wait := waits(); wait < 10*time.Minute { // improbable: 1 in 14,400
		t.Errorf("by the store's backoff it waits %v", wait)
	}
	set(t, pub, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond)})
	if wait := waits(); wait > time.Second {
		t.Errorf("by the topic's backoff it waits %v", wait)
	}
}
