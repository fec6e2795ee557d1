package metrics_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// schedule puts a schedule that fires on New Year's Day of 2090 and of the years behind it.
func schedule(t testing.TB, db *notify.Store, topic string) {
	t.Helper()
	s := store.Schedule{Topic: topic, Name: "yearly"}
	for year := range 3 {
		s.Spec.At = append(s.Spec.At, time.Date(2090+year, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	if _, _, err := db.Of(topic).PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

// The schedules of all shards are shown as one number, and so is what they made.
func TestSchedules(t *testing.T) {
	db := storetest.Sharded(t, 8)
	m := newMetrics(t, db, metrics.Options{})
	want(t, scrape(t, m), map[string]float64{
		"bellhop_schedules": 0, "bellhop_schedules_behind_seconds": 0,
		"bellhop_occurrences_made_total": 0, "bellhop_occurrences_missed_total": 0, "bellhop_occurrences_taken_total": 0, "bellhop_occurrences_refused_total": 0,
		"bellhop_schedules_unreadable_total": 0,
	})
	const topics = 12
	for i := range topics {
		schedule(t, db, fmt.Sprintf("t%d", i))
	}
	storetest.Eventually(t, "nobody fills them", func() bool { return scrape(t, m)["bellhop_schedules_behind_seconds"] > 0 })
	carriertest.Run(t, db)
	storetest.Eventually(t, "two of each are made", func() bool { return scrape(t, m)["bellhop_occurrences_made_total"] == 2*topics })
	want(t, scrape(t, m), map[string]float64{
		"bellhop_schedules": topics, "bellhop_schedules_behind_seconds": 0, "bellhop_occurrences_missed_total": 0, "bellhop_occurrences_taken_total": 0, "bellhop_occurrences_refused_total": 0,
	})
}

// A carrier that cannot read schedules of some shards says so once for each, and makes those of the others.
func TestUnreadableSchedules(t *testing.T) {
	db := storetest.Sharded(t, 8)
	m := newMetrics(t, db, metrics.Options{})
	for i := range 12 {
		topic := fmt.Sprintf("t%d", i)
		schedule(t, db, topic)
		if i%3 == 0 {
			storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Rules(topic), "yearly", "{\"every\":3600}\nno record").Err())
		}
	}
	carriertest.Run(t, db)
	storetest.Eventually(t, "the carrier looked at all", func() bool {
		now := scrape(t, m)
		return now["bellhop_schedules_unreadable_total"] == 4 && now["bellhop_occurrences_made_total"] == 16
	})
	want(t, scrape(t, m), map[string]float64{"bellhop_schedules": 12, "bellhop_schedules_behind_seconds": 0, "bellhop_schedules_unreadable_total": 4})
}

// A scrape of a store without schedules, pushes and groups makes no call for them.
func TestNoCallWithoutSchedules(t *testing.T) {
	db := storetest.Sharded(t, 2)
	var mu sync.Mutex
	ran := make(map[string]int)
	db.Observe(func(script string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		ran[script]++
	})
	calls := func(script string) int {
		mu.Lock()
		defer mu.Unlock()
		return ran[script]
	}
	storetest.Publish(t, db, notify.Message{Topic: "orders", Delay: time.Hour})
	m := newMetrics(t, db, metrics.Options{})
	want(t, scrape(t, m), map[string]float64{"bellhop_schedules": 0, "bellhop_occurrences_made_total": 0})
	if surveys, sums, pushes, groups := calls("joined"), calls("schedule_sums"), calls("pushes"), calls("stuck_groups"); surveys == 0 || sums+pushes+groups != 0 {
		t.Errorf("%d surveys, %d sums of schedules, %d looks at pushes and %d at groups", surveys, sums, pushes, groups)
	}
	schedule(t, db, "orders")
	storetest.Eventually(t, "it is shown", func() bool { return scrape(t, m)["bellhop_schedules"] == 1 })
	if calls("schedule_sums") == 0 {
		t.Error("the sums were not asked for")
	}
}

// While a shard is away the schedules of the others are shown, and no counter that would seem to begin anew.
func TestSchedulesOfAShardAway(t *testing.T) {
	db := storetest.ShardAway(t, 8, 3)
	m := newMetrics(t, db, metrics.Options{})
	there := 0
	for i := range 12 {
		if topic := fmt.Sprintf("t%d", i); db.Of(topic).Number() != 3 {
			schedule(t, db, topic)
			there++
		}
	}
	got := scrape(t, m)
	want(t, got, map[string]float64{"bellhop_schedules": float64(there)})
	if _, shown := got["bellhop_occurrences_made_total"]; shown {
		t.Error("a counter is shown without a shard")
	}
}
