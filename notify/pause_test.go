package notify_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// pause pauses the topic.
func pause(t testing.TB, pub client) {
	t.Helper()
	storetest.Must(t, pub.Pause(t.Context(), topic))
}

// resume resumes the topic.
func resume(t testing.TB, pub client) {
	t.Helper()
	storetest.Must(t, pub.Resume(t.Context(), topic))
}

// claimNothing claims from the topic, which must return nothing.
func claimNothing(t testing.TB, db *notify.Store, minAge time.Duration) {
	t.Helper()
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 500, Lease: time.Minute, MinAge: minAge})
	if err != nil || len(ds) > 0 {
		t.Errorf("claimed %d messages of a topic that is paused, %v", len(ds), err)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	now := redisTime(t, db)
	publish(t, pub, overdue("old", now.Add(-anHour)))
	publish(t, pub, message("new", time.Time{}))
	publish(t, pub, message("later", future))
	for range 2 { // the second changes nothing
		pause(t, pub)
		wantCounts(t, pub, notify.Counts{Scheduled: 1, Ready: 2, Published: 3, Paused: true})
	}
	claimNothing(t, db, 0)
	claimNothing(t, db, time.Minute)
	if was, err := pub.Cancel(t.Context(), topic, "new"); err != nil || was != notify.Ready {
		t.Errorf("it was %v, %v", was, err)
	}
	if stateOf(t, pub, "old") != notify.Ready || stateOf(t, pub, "later") != notify.Scheduled {
		t.Error("a message of a topic that is paused is not as it was")
	}
	for range 2 {
		resume(t, pub)
		wantCounts(t, pub, notify.Counts{Scheduled: 1, Ready: 1, Published: 3})
	}
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute, MinAge: time.Minute})
	if err != nil || len(ds) != 1 || ds[0].ID != "old" {
		t.Errorf("claimed %+v, %v", ds, err)
	}
}

// Nothing that makes a message ready rings a subscriber while the topic is paused; the
// resume rings for all of them, once.
func TestNobodyIsRungWhilePaused(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	claimer, letters := subscriberstest.Claimer(t, db), storetest.Inspector(t, db)
	for _, id := range []string{"released", "dead"} {
		publish(t, pub, message(id, time.Time{}))
	}
	ds := claim(t, db, 2)
	wait(t, db, "a", "b", "c")
	pause(t, pub)
	rung := recording(t, db, db.KeysOf(topic).Inbox("a"), db.KeysOf(topic).Inbox("b"), db.KeysOf(topic).Inbox("c"), wakes(db, topic), wakes(db, "another"))
	for what, do := range map[string]func() error{
		"publish":      func() error { return storetest.ErrOf(pub.Publish(t.Context(), message("published", time.Time{}))) },
		"publish many": func() error { return pub.PublishMany(t.Context(), []notify.Message{message("many", past)})[0].Err },
		"release":      func() error { return storetest.ErrOf(claimer.ReleaseMany(t.Context(), topic, ds[:1])) },
		"requeue": func() error {
			if _, err := ds[1].Bury(t.Context(), "the test says so"); err != nil {
				return err
			}
			return storetest.ErrOf(letters.Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...))
		},
		"reschedule": func() error {
			publish(t, pub, message("moved", future))
			_, err := pub.RescheduleAt(t.Context(), topic, "moved", past)
			return err
		},
		"another topic": func() error {
			return storetest.ErrOf(pub.Publish(t.Context(), notify.Message{Topic: "another", Body: []byte("x")}))
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := cmp.Diff([]string{wake(db, "another", 1)}, rung.recorded()); diff != "" {
		t.Errorf("published while paused (-want +got):\n%s", diff)
	}
	wantCounts(t, pub, notify.Counts{Ready: 5, Waiting: 3, Published: 5, Died: 1, Paused: true})
	resume(t, pub)
	want := []string{wake(db, topic, 5), "inbox:a " + topic, "inbox:b " + topic, "inbox:c " + topic}
	if diff := cmp.Diff(want, rung.recorded()); diff != "" {
		t.Errorf("published at the resume (-want +got):\n%s", diff)
	}
	resume(t, pub)
	if got := rung.recorded(); len(got) > 0 {
		t.Errorf("a second resume rang %q", got)
	}
}

// A topic that was never used may be paused: it is listed while it is, and nothing is
// left afterwards.
func TestPauseUnusedTopic(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	rung := recording(t, db, wakes(db, topic))
	resume(t, pub)
	pause(t, pub)
	all, err := storetest.Collect(pub.Topics(t.Context()))
	if diff := cmp.Diff([]notify.Counts{{Topic: topic, Paused: true}}, all); diff != "" || err != nil {
		t.Errorf("topics (-want +got), %v:\n%s", err, diff)
	}
	resume(t, pub)
	if left := dump(t, db); len(left) > 0 {
		t.Errorf("left is %v", left)
	}
	if got := rung.recorded(); len(got) > 0 {
		t.Errorf("published was %q, and nothing is ready", got)
	}
}

func TestPauseIsRefused(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	for _, bad := range []string{"", ".", "a..b", "a b", "a:b", "a\n", strings.Repeat("a", 129), "\xff"} {
		unchanged(t, db, func() {
			if err := pub.Pause(t.Context(), bad); !errors.Is(err, notify.ErrInvalid) {
				t.Errorf("pause %q: %v", bad, err)
			}
			if err := pub.Resume(t.Context(), bad); !errors.Is(err, notify.ErrInvalid) {
				t.Errorf("resume %q: %v", bad, err)
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := pub.Pause(ctx, topic); !errors.Is(err, context.Canceled) {
		t.Errorf("pause: %v", err)
	}
}

// An end of a pause that is past, or too far off, is refused by Redis's clock.
func TestPauseUntilIsRefused(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", time.Time{}))
	now := redisTime(t, db)
	for _, paused := range []bool{false, true} {
		if paused {
			storetest.Must(t, storetest.ErrOf(store.PauseUntil(t.Context(), db, topic, store.In(time.Hour))))
		}
		unchanged(t, db, func() {
			for _, until := range []store.When{0, 1, store.At(now), store.At(now.Add(-time.Hour)), store.In(store.LongestPause + time.Millisecond), store.At(now.Add(store.LongestPause + time.Hour)), store.At(record.MaxDue)} {
				_, err := store.PauseUntil(t.Context(), db, topic, until)
				if faults := fault.All(err); len(faults) != 1 || faults[0].Field != "until" || !strings.Contains(err.Error(), "it is in the past, or more than 8784h ahead; use a time in between") {
					t.Errorf("until %d: %v", until, err)
				}
			}
			if _, err := store.PauseUntil(t.Context(), db, "a b", store.In(time.Hour)); !errors.Is(err, notify.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	for _, until := range []store.When{store.In(store.LongestPause), store.At(redisTime(t, db).Add(store.LongestPause)), store.In(time.Nanosecond)} {
		if _, err := store.PauseUntil(t.Context(), db, topic, until); err != nil {
			t.Errorf("until %d: %v", until, err)
		}
	}
}

// If the counters are foreign, a pause fails with an error, and all else goes on.
func TestPauseAmongForeignKeys(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	do(t, db, []any{"SET", db.KeysOf(topic).Base() + "topics", "x"})
	unchanged(t, db, func() {
		for what, err := range map[string]error{"pause": pub.Pause(t.Context(), topic), "resume": pub.Resume(t.Context(), topic)} {
			if err == nil || !strings.Contains(err.Error(), "foreign") || errors.Is(err, notify.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	rung := recording(t, db, wakes(db, topic))
	publish(t, pub, message("a", time.Time{}))
	if got := rung.recorded(); len(got) != 1 {
		t.Errorf("published was %q", got)
	}
	claim(t, db, 1)
}

// A pause is kept as paused=1; any other value is no pause. A foreign ready set or
// waiting list keeps no topic paused.
func TestForeignPause(t *testing.T) {
	t.Parallel()
	for _, value := range []any{"", "0", "x", "1", "paused=1", " paused=0", " paused=", " paused=11", " paused=true", " unpaused=1", "\x00"} {
		pub, db := open(t)
		publish(t, pub, message("a", time.Time{}))
		do(t, db, []any{"HSET", db.KeysOf(topic).Base() + "topics", topic + ":settings", value})
		claim(t, db, 1)
		if counts(t, pub).Paused {
			t.Errorf("%q counts as paused", value)
		}
		resume(t, pub)
	}
	for _, key := range []func(script.Keys) string{
		func(k script.Keys) string { return k.Ready(topic) },
		func(k script.Keys) string { return k.Waiting(topic) },
	} {
		pub, db := open(t)
		do(t, db, []any{"SET", key(db.KeysOf(topic)), "x"})
		pause(t, pub)
		claimNothing(t, db, 0)
		resume(t, pub)
		wantCounts(t, pub, notify.Counts{})
	}
}

// Broadcasts are sent while their topic is paused, and messages expire.
func TestPauseDoesNotStopTheCarrier(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	pause(t, pub)
	carry(t, db)
	publish(t, pub, announcement("all", time.Time{}))
	publish(t, pub, notify.Message{Topic: topic, ID: "short", Body: []byte("x"), TTL: time.Millisecond})
	publish(t, pub, notify.Message{Topic: topic, ID: "soon", Body: []byte("x"), Delay: time.Millisecond})
	storetest.Eventually(t, "all is carried", func() bool {
		c := counts(t, pub)
		return c.Sent == 1 && c.Dead == 1 && c.Ready == 1
	})
	wantCounts(t, pub, notify.Counts{Ready: 1, Dead: 1, Sent: 1, Log: 1, Published: 2, Died: 1, Paused: true})
}
