package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
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

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish old
	redis ZADD ready:order.timeout 1000 order.timeout:old
	publish new
	publish later due=future
	pause
	counts scheduled=1 ready=2 published=3 paused=true
	pause                                 # changes nothing
	counts scheduled=1 ready=2 published=3 paused=true
	claim 500 = nothing
	claim 500 min_age=1m = nothing
	cancel new = ready
	is old=ready later=scheduled
	resume
	counts scheduled=1 ready=1 published=3
	resume
	counts scheduled=1 ready=1 published=3
	publish new
	claim 10 min_age=1m = old
	`, scenario())
}

// Nothing that makes a message ready rings a subscriber while the topic is paused; the
// resume rings for all of them, once, and so it does for programs of any language.
func TestNobodyIsRungWhilePaused(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, scenario())
	p.Play(`
	publish released dead
	claim 2 = dead released
	wait desk-1 desk-2 desk-3
	pause
	rung = nobody
	`)
	woken := recording(t, p.Store, wakes(p.Store, topic), wakes(p.Store, "another"))
	p.Play(`
	publish published
	publish many more
	release released
	bury dead
	requeue dead
	publish moved due=future
	reschedule moved due=past = ready
	publish other topic=another
	rung = nobody
	counts ready=6 waiting=3 published=6 died=1 paused=true
	`)
	storetest.Same(t, "published while paused", []string{wake(p.Store, "another", 1)}, woken.recorded())
	p.Play(`
	resume
	rung = desk-1 desk-2 desk-3
	resume
	rung = nobody
	`)
	storetest.Same(t, "published at the resume", []string{wake(p.Store, topic, 6)}, woken.recorded())
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
			storetest.Fails(t, fmt.Sprintf("pause %q", bad), pub.Pause(t.Context(), bad), notify.ErrInvalid)
			storetest.Fails(t, fmt.Sprintf("resume %q", bad), pub.Resume(t.Context(), bad), notify.ErrInvalid)
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	storetest.Fails(t, "pause", pub.Pause(ctx, topic), context.Canceled)
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
			storetest.Fails(t, "it", storetest.ErrOf(store.PauseUntil(t.Context(), db, "a b", store.In(time.Hour))), notify.ErrInvalid)
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
	for _, value := range []string{"", "0", "x", "1", "paused=1", " paused=0", " paused=", " paused=11", " paused=true", " unpaused=1", "\x00"} {
		p := storetest.NewPlayer(t, scenario())
		storetest.Must(t, p.Store.Client().HSet(t.Context(), p.Shard.Keys().Topics(), topic+":settings", value).Err())
		p.Play(`
		publish a
		claim 1 = a
		counts leased=1 published=1
		resume
		`)
	}
	storetest.Play(t, `
== a foreign ready set
	redis SET ready:order.timeout x
== a foreign waiting list
	redis SET waiting:order.timeout x
==
	pause
	claim 500 = nothing
	resume
	counts
	`, scenario())
}

// Broadcasts are sent while their topic is paused, and messages expire.
func TestPauseDoesNotStopTheCarrier(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish kept lost
	claim 2 = kept lost
	pause
	publish all mode=broadcast = scheduled
	publish short ttl=1ms
	publish soon delay=1ms
	lapse lost
	pass 3ms
	carry = dead:short
	counts ready=2 leased=1 dead=1 sent=1 log=1 published=4 died=1 paused=true
	ack kept
	claim 2 = nothing
	resume
	claim 2 = lost:1 soon
	`)
}
