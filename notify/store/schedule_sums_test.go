package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What schedules made, missed and could not make is summed up, and stays so when a schedule is deleted; and one that waits for the carrier is behind.
func TestScheduleSums(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	sums := func() store.ScheduleSums {
		t.Helper()
		sums, err := r.shard.ScheduleSums(t.Context())
		r.must(err)
		return sums
	}
	storetest.Same(t, "no schedule yet", store.ScheduleSums{}, sums())
	storetest.Publish(t, r.db, notify.Message{Topic: r.topic, ID: r.id("daily", 2), Body: []byte("mine"), Due: r.at(2)})
	r.put(hourly(r, "daily"))
	storetest.Eventually(t, "it is behind", func() bool { return sums().Behind > 0 })
	of := r.only()
	r.due(store.Fill{Of: of, Cursor: r.at(3), Next: r.base, Missed: 5, Occurrences: []store.Occurrence{{At: r.at(1)}, {At: r.at(2)}, {At: r.at(3)}}})
	storetest.Same(t, "it", store.ScheduleSums{Schedules: 1, Made: 2, Missed: 5, Taken: 1}, sums())
	r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	r.must(r.db.Client().Del(t.Context(), r.db.KeysOf(r.topic).Scheduled(r.topic)).Err())
	r.must(r.db.Client().Set(t.Context(), r.db.KeysOf(r.topic).Scheduled(r.topic), "a string", 0).Err())
	r.put(hourly(r, "daily"))
	r.fills(r.only(), 5)
	storetest.Same(t, "it", store.ScheduleSums{Schedules: 1, Made: 2, Missed: 5, Taken: 1, Refused: 1}, sums())
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if got := sums(); got.Schedules != 1 || got.Behind != 0 {
		t.Errorf("paused: got %+v", got)
	}
}
