package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Nothing is put into a foreign scheduled set: the call returns an error and changes nothing.
// Other topics, and ready messages, are not affected.
func TestForeignSchedule(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	publish(t, pub, message("leased", past))
	d := claim(t, store, 1)[0]
	publish(t, pub, message("ready", time.Time{}))
	do(t, store, []any{"SET", store.KeysOf(topic).Scheduled(topic), "x"})
	for name, f := range map[string]func() error{
		"publish":    func() error { return storetest.ErrOf(pub.Publish(t.Context(), message("a", future))) },
		"nack":       func() error { return storetest.ErrOf(d.Nack(t.Context(), anHour, "no")) },
		"reschedule": func() error { return storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "ready", anHour)) },
	} {
		unchanged(t, store, func() {
			if err := f(); err == nil || !strings.Contains(err.Error(), "the scheduled set of") || !strings.Contains(err.Error(), "foreign") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for _, r := range pub.PublishMany(t.Context(), []notify.Message{
		{Topic: "another", ID: "a", Body: []byte("x"), Due: future}, message("b", time.Time{}),
	}) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	for _, id := range []string{"ready", "b"} {
		if was, err := pub.Cancel(t.Context(), topic, id); err != nil || was != notify.Ready {
			t.Errorf("cancel %s: %v, %v", id, was, err)
		}
	}
	wantCounts(t, pub, notify.Counts{Leased: 1, Published: 3})
}

// The same holds for a foreign index of scheduled sets.
func TestForeignIndexOfScheduledSets(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	publish(t, pub, message("waits", future))
	publish(t, pub, message("ready", time.Time{}))
	do(t, store, []any{"SET", store.KeysOf(topic).ScheduledTopics(), "x"})
	unchanged(t, store, func() {
		if _, err := pub.Publish(t.Context(), message("a", future)); err == nil || !strings.Contains(err.Error(), "foreign") {
			t.Errorf("publish: %v", err)
		}
		if _, err := pub.RescheduleIn(t.Context(), topic, "ready", anHour); err == nil || !strings.Contains(err.Error(), "foreign") {
			t.Errorf("reschedule: %v", err)
		}
	})
	if was, err := pub.Cancel(t.Context(), topic, "waits"); err != nil || was != notify.Scheduled {
		t.Errorf("cancel: %v, %v", was, err)
	}
	claim(t, store, 1)
}

// The index of scheduled sets has each topic's first due time, whatever comes and goes.
func TestHeadOfAScheduledSet(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	head := func(want time.Time) {
		t.Helper()
		storetest.Heads(t, store)
		if got := score(t, store, "scheduled", topic); !got.Equal(want) {
			t.Errorf("the first is due at %v, want %v", got, want)
		}
	}
	publish(t, pub, message("b", future.Add(anHour)))
	head(future.Add(anHour))
	publish(t, pub, message("a", future))
	head(future)
	publish(t, pub, message("c", future.Add(2*anHour)))
	head(future)
	storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", future.Add(3*anHour))))
	head(future.Add(anHour))
	storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "b")))
	head(future.Add(2 * anHour))
	for _, id := range []string{"a", "c"} {
		storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, id)))
	}
	storetest.Empty(t, store)
}
