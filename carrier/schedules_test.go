package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func put(t testing.TB, db *notify.Store, s store.Schedule) {
	t.Helper()
	if s.Topic = topic; s.Message.Body == nil {
		s.Message.Body = []byte("x")
	}
	if _, _, err := db.Of(topic).PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t testing.TB, db *notify.Store, name string) store.ScheduleState {
	t.Helper()
	_, state, _, err := db.Of(topic).Schedule(t.Context(), topic, name)
	storetest.Must(t, err)
	return state
}

// awaitMade waits until a schedule has made so many occurrences, and returns its state.
func awaitMade(t testing.TB, db *notify.Store, name string, n int64) (state store.ScheduleState) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprint(name, " has made ", n), func() bool {
		state = stateOf(t, db, name)
		return state.Made >= n
	})
	return state
}

// ids returns the ids in a place of the topic, by their times.
func idsIn(t testing.TB, db *notify.Store, key string) (all []string) {
	t.Helper()
	members, err := db.Client().ZRange(t.Context(), key, 0, -1).Result()
	storetest.Must(t, err)
	for _, member := range members {
		all = append(all, strings.TrimPrefix(member, topic+":"))
	}
	return all
}

// A subscriber gets each second of a schedule once, and in time, over carriers that lose their leases and are replaced all the while.
func TestEachSecondOnce(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	var mu sync.Mutex
	got := make(map[string]int)
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(t, err)
	err = sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		got[d.ID]++
		return nil
	}, subscribers.HandleOptions{})
	storetest.Must(t, err)
	storetest.Run(t, sub.Run)
	put(t, db, store.Schedule{Name: "tick", Spec: calendar.Spec{Every: time.Second}})
	began := stateOf(t, db, "tick").Cursor // which carriers move ahead
	for range 3 {
		run(t, db, carrier.Options{})
	}
	seen := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
	for n := range 6 {
		storetest.Eventually(t, "another second is handled", func() bool { return seen() > n })
		if err := db.Client().Del(t.Context(), db.KeysOf(topic).Carrier()).Err(); err != nil { // the carrier is deposed
			t.Fatal(err)
		}
	}
	last := seen()
	storetest.Eventually(t, "it goes on", func() bool { return seen() > last+1 })
	mu.Lock()
	defer mu.Unlock()
	var ids []string
	for id, n := range got {
		if ids = append(ids, id); n != 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
	slices.Sort(ids)
	first, err := time.Parse(time.RFC3339, strings.TrimPrefix(ids[0], "tick~"))
	if err != nil || first.Before(began) || first.Sub(began) > 2*time.Second {
		t.Errorf("the first is %s, %v, put at %s", ids[0], err, began)
	}
	for i, id := range ids {
		if want := "tick~" + first.Add(time.Duration(i)*time.Second).Format(time.RFC3339); id != want {
			t.Fatalf("got %s, want %s", id, want)
		}
	}
}

// A schedule that is put is filled at once, and two occurrences ahead; after that the carrier rests.
func TestFilledAhead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "yearly", Spec: calendar.Spec{Cron: "@yearly", Zone: "Europe/Berlin"}})
	state := awaitMade(t, db, "yearly", 2)
	want := []string{}
	for _, made := range state.Occurrences {
		if made.At.In(berlin(t)).Format("01-02 15:04:05") != "01-01 00:00:00" || !made.Due.Equal(made.At) {
			t.Errorf("got %+v", made)
		}
		want = append(want, "yearly~"+made.At.Format(time.RFC3339))
	}
	if got := idsIn(t, db, db.KeysOf(topic).Scheduled(topic)); !slices.Equal(got, want) || len(got) != 2 {
		t.Errorf("got %v, want %v", got, want)
	}
	if at := db.Client().ZScore(t.Context(), db.KeysOf(topic).Alarms(), "/").Val(); at != float64(state.Occurrences[0].At.UnixMilli()) {
		t.Errorf("the carrier looks at %s, want %d", strconv.FormatFloat(at, 'f', -1, 64), state.Occurrences[0].At.UnixMilli())
	}
}

// A carrier whose rules of time zones are newer than those by which schedules were filled makes theirs anew as it is elected.
func TestNewerZones(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "yearly", Spec: calendar.Spec{Cron: "@yearly", Zone: "Europe/Berlin"}})
	before := awaitMade(t, db, "yearly", 2)
	stop()
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Topics(), "*:zones", "2000a").Err())
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "it is made anew", func() bool {
		after := stateOf(t, db, "yearly")
		return after.Revision != before.Revision && after.Made == 2 && after.Occurrences[0].At.Equal(before.Occurrences[0].At)
	})
	storetest.Is(t, "it", db.Client().HGet(t.Context(), db.KeysOf(topic).Topics(), "*:zones").Val(), calendar.Version())
}

// What no carrier made before a schedule was changed, or its zones were made anew, is made all the same, or missed, if its times are as before. A rule
// with other times begins when it is put.
func TestChangedWhileNobodyCarried(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, db *notify.Store, s store.Schedule)
		missed int64
	}{
		"the message": {func(t *testing.T, db *notify.Store, s store.Schedule) {
			s.Message.Headers = map[string]string{"Trace": "7"}
			put(t, db, s)
		}, 12},
		"the zones": {func(t *testing.T, db *notify.Store, _ store.Schedule) {
			storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf(topic).Topics(), "*:zones", "2000a").Err())
		}, 12},
		"the times": {func(t *testing.T, db *notify.Store, s store.Schedule) {
			s.Spec.Zone = "Etc/GMT-1"
			put(t, db, s)
		}, 2}, // that were made, and nobody carried
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			stop := run(t, db, carrier.Options{})
			now := time.Now()
			daily := func(t time.Time) calendar.Spec { return calendar.Spec{Cron: t.UTC().Format("4 15 * * *"), Zone: "UTC"} }
			s := store.Schedule{Name: "daily", Missed: store.MissedSkip, Spec: daily(now.Add(12 * time.Hour))}
			put(t, db, s)
			awaitMade(t, db, "daily", 2)
			stop()
			storetest.AgeSchedule(t, db, topic, "daily", 12*24*time.Hour)
			test.change(t, db, s)
			run(t, db, carrier.Options{})
			var state store.ScheduleState
			storetest.Eventually(t, "it goes on", func() bool { // to put other times moves the cursor, too
				state = stateOf(t, db, "daily")
				return state.Cursor.After(now) && len(state.Occurrences) == 2 && state.Occurrences[0].At.After(now)
			})
			if state.Missed != test.missed {
				t.Errorf("%+v", state)
			}
		})
	}
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := calendar.Zone("Europe/Berlin")
	storetest.Must(t, err)
	return zone
}

// After a time without a carrier what was made ahead, and what never was, is judged together before anything is carried.
func TestMissed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		missed  store.MissedPolicy
		catchup time.Duration
		ready   int // of 10 days' occurrences
		missing int64
	}{
		{store.MissedOne, 0, 1, 9},
		{store.MissedSkip, 0, 0, 10},
		{store.MissedAll, 4*24*time.Hour + time.Minute, 4, 6},
	} {
		t.Run(string(test.missed), func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			stop := run(t, db, carrier.Options{})
			now := time.Now().UTC()
			daily := now.Add(12 * time.Hour) // far from now, so that none is due while the test runs
			put(t, db, store.Schedule{
				Name: "daily", Missed: test.missed, Catchup: test.catchup,
				Spec: calendar.Spec{Every: 24 * time.Hour, From: daily.Truncate(time.Second).AddDate(0, -6, 0)},
			})
			awaitMade(t, db, "daily", 2)
			stop()
			storetest.AgeSchedule(t, db, topic, "daily", 10*24*time.Hour)
			run(t, db, carrier.Options{})
			var state store.ScheduleState
			storetest.Eventually(t, "it is settled", func() bool {
				state = stateOf(t, db, "daily")
				return state.Missed > 0 && state.Cursor.After(now)
			})
			ready := idsIn(t, db, db.KeysOf(topic).Ready(topic))
			if len(ready) != test.ready || state.Missed != test.missing || state.Made != int64(test.ready)+2 || len(idsIn(t, db, db.KeysOf(topic).Scheduled(topic))) != 2 {
				t.Errorf("ready %v, %+v", ready, state)
			}
			if test.ready > 0 && !slices.Contains(ready, "daily~"+daily.Truncate(time.Second).AddDate(0, 0, -1).Format(time.RFC3339)) {
				t.Errorf("ready: %v, want the latest", ready)
			}
		})
	}
}

// A schedule that has made all of its count misses nothing, however long ago that was; with a greater count it goes on from when it is put.
func TestGreaterCount(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	s := store.Schedule{Name: "daily", Count: 1, Spec: calendar.Spec{Every: 24 * time.Hour, From: time.Now().UTC().Add(12*time.Hour).Truncate(time.Second).AddDate(0, -6, 0)}}
	put(t, db, s)
	awaitMade(t, db, "daily", 1)
	stop()
	keys := db.KeysOf(topic)
	if err := db.Client().Del(t.Context(), keys.Scheduled(topic), keys.Messages()).Err(); err != nil { // as if it were acknowledged
		t.Fatal(err)
	}
	storetest.AgeSchedule(t, db, topic, "daily", 10*24*time.Hour)
	run(t, db, carrier.Options{})
	s.Count = 3
	put(t, db, s)
	state := awaitMade(t, db, "daily", 3)
	ready, ahead := idsIn(t, db, keys.Ready(topic)), idsIn(t, db, keys.Scheduled(topic))
	if state.Missed != 0 || len(ready) > 0 || len(ahead) != 2 {
		t.Errorf("ready %v, scheduled %v, %+v", ready, ahead, state)
	}
}

// More that was missed than one call makes is made by several: what the first ones made is not judged again.
func TestManyMissed(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	put(t, db, store.Schedule{
		Name: "hourly", Missed: store.MissedAll, Catchup: 20 * 24 * time.Hour,
		Spec: calendar.Spec{Every: time.Hour, From: time.Now().UTC().Add(30*time.Minute).Truncate(time.Second).AddDate(0, -6, 0)},
	})
	awaitMade(t, db, "hourly", 2)
	stop()
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "overdue", Delay: time.Millisecond}) // behind which they wait
	storetest.AgeSchedule(t, db, topic, "hourly", 10*24*time.Hour)
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "all that was missed is made", func() bool {
		return len(idsIn(t, db, db.KeysOf(topic).Ready(topic))) == 241 && len(idsIn(t, db, db.KeysOf(topic).Scheduled(topic))) == 2
	})
	if state := stateOf(t, db, "hourly"); state.Missed != 0 || state.Made != 242 {
		t.Errorf("got %+v", state)
	}
}

// What one call makes is bounded by its bodies, but all that is made anew of what was missed is made, whatever their size; and another
// schedule is filled meanwhile.
func TestMissedWithLargeBodies(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	now := time.Now().UTC()
	large := store.Schedule{
		Name: "large", Missed: store.MissedAll, Catchup: 20 * 24 * time.Hour, Message: record.Record{Body: make([]byte, 1<<20)},
		Spec: calendar.Spec{Every: 24 * time.Hour, From: now.Add(12*time.Hour).Truncate(time.Second).AddDate(0, -6, 0)},
	}
	small := large
	small.Name, small.Message.Body = "small", []byte("x")
	for _, s := range []store.Schedule{large, small} {
		put(t, db, s)
		awaitMade(t, db, s.Name, 2)
	}
	stop()
	for _, s := range []store.Schedule{large, small} {
		storetest.AgeSchedule(t, db, topic, s.Name, 10*24*time.Hour)
	}
	run(t, db, carrier.Options{})
	keys := db.KeysOf(topic)
	storetest.Eventually(t, "all that was missed is made", func() bool {
		return len(idsIn(t, db, keys.Ready(topic))) == 20 && len(idsIn(t, db, keys.Scheduled(topic))) == 4
	})
	for _, s := range []store.Schedule{large, small} {
		if state := stateOf(t, db, s.Name); state.Missed != 0 || state.Made != 12 {
			t.Errorf("%s: %+v", s.Name, state)
		}
	}
}

// Each is late by itself: an outage longer than the grace loses nothing of its last minute.
func TestEachLateByItself(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "often", Spec: calendar.Spec{Every: 10 * time.Second}})
	awaitMade(t, db, "often", 2)
	stop()
	storetest.AgeSchedule(t, db, topic, "often", 3*time.Minute)
	run(t, db, carrier.Options{})
	storetest.Eventually(t, "what was missed is told, and the others are ready", func() bool {
		ready := idsIn(t, db, db.KeysOf(topic).Ready(topic))
		return stateOf(t, db, "often").Missed > 0 && len(ready) >= 6
	})
}

// What was made, and became due while there was no carrier for less than the grace, is carried.
func TestLateWithinTheGrace(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "daily", Grace: 24 * time.Hour, Spec: calendar.Spec{Every: 48 * time.Hour, From: time.Now().Add(12 * time.Hour).Truncate(time.Second).UTC()}})
	state := awaitMade(t, db, "daily", 2)
	stop()
	storetest.AgeSchedule(t, db, topic, "daily", 24*time.Hour)
	run(t, db, carrier.Options{})
	want := "daily~" + state.Occurrences[0].At.Add(-24*time.Hour).Format(time.RFC3339)
	storetest.Eventually(t, "it is carried", func() bool { return slices.Equal(idsIn(t, db, db.KeysOf(topic).Ready(topic)), []string{want}) })
	if state := stateOf(t, db, "daily"); state.Missed != 0 {
		t.Errorf("got %+v", state)
	}
}

// A clock that is set forward takes the same path under one carrier: what is late is settled before it is carried.
func TestClockSetForward(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := carrier.Elect(t, db.Of(topic), carrier.Options{})
	c.Beat(t)
	put(t, db, store.Schedule{Name: "daily", Missed: store.MissedSkip, Spec: calendar.Spec{Every: 24 * time.Hour, From: time.Now().Add(12 * time.Hour).Truncate(time.Second).UTC()}})
	c.Beat(t)
	c.Fill(t)
	awaitMade(t, db, "daily", 2)
	c.Beat(t)
	storetest.AgeSchedule(t, db, topic, "daily", 36*time.Hour+time.Minute)
	c.Beat(t)
	state := stateOf(t, db, "daily")
	if ready := idsIn(t, db, db.KeysOf(topic).Ready(topic)); len(ready) != 0 || state.Missed != 2 {
		t.Errorf("ready %v, %+v", ready, state)
	}
}

// With overlap skip at most one occurrence is between its time and its end, whatever the topic's settings say: the others are dropped while it is ready,
// leased or put off. A dead one bars nothing.
func TestOverlapSkip(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Set(t, db, topic, notify.SettingsChange{KeyConcurrency: new(3), OnRetry: new("pass"), OnDead: new("stop")})
	run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "tick", Spec: calendar.Spec{Every: time.Second}, Overlap: store.OverlapSkip})
	claimer := subscriberstest.Claimer(t, db)
	claim := func() subscribers.Delivery {
		t.Helper()
		var ds []subscribers.Delivery
		storetest.Eventually(t, "one is claimed", func() bool {
			var err error
			if ds, err = claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Hour}); err != nil {
				t.Fatal(err)
			}
			return len(ds) == 1
		})
		return ds[0]
	}
	counts := func() notify.Counts {
		t.Helper()
		c, err := storetest.Count(db, topic)
		storetest.Must(t, err)
		return c
	}
	alone := func(what string, ready, leased int64) {
		t.Helper()
		before := counts().Dropped
		storetest.Eventually(t, "two more are dropped while it is "+what, func() bool { return counts().Dropped >= before+2 })
		if c := counts(); c.Ready != ready || c.Leased != leased || c.Blocked != 0 {
			t.Errorf("while it is %s: %+v", what, c)
		}
	}
	storetest.Eventually(t, "the first is ready", func() bool { return counts().Ready == 1 })
	alone("ready", 1, 0)
	d := claim()
	alone("leased", 0, 1)
	storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "later")))
	alone("put off", 0, 0)
	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).RescheduleIn(t.Context(), topic, d.ID, 0)))
	if d = claim(); d.Attempt != 2 {
		t.Fatalf("got %+v", d)
	}
	storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "no")))
	if next := claim(); next.ID == d.ID {
		t.Errorf("%s came again", next.ID)
	}
}

// What becomes of occurrences does not end the chain: here all that were made are cancelled, each time.
func TestChainGoesOn(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	stop := run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "daily", Grace: 24 * time.Hour, Spec: calendar.Spec{Every: 24 * time.Hour, From: time.Now().Add(12 * time.Hour).Truncate(time.Second).UTC()}})
	pub := storetest.Publisher(t, db)
	for n := range int64(3) {
		state := awaitMade(t, db, "daily", n+2)
		for _, made := range state.Occurrences[max(len(state.Occurrences)-2, 0):] {
			if _, err := pub.Cancel(t.Context(), topic, "daily~"+made.At.Format(time.RFC3339)); err != nil && !errors.Is(err, notify.ErrNotFound) {
				t.Fatal(err)
			}
		}
		stop()
		storetest.AgeSchedule(t, db, topic, "daily", 24*time.Hour)
		stop = run(t, db, carrier.Options{})
	}
	if state := awaitMade(t, db, "daily", 5); state.Missed != 0 || len(state.Occurrences) != 5 {
		t.Errorf("got %+v", state)
	}
}

// A schedule that is changed while its occurrence is leased goes on with the next; that lease stands.
func TestChangedWhileLeased(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	run(t, db, carrier.Options{})
	put(t, db, store.Schedule{Name: "tick", Spec: calendar.Spec{Every: time.Second}})
	claimer := subscriberstest.Claimer(t, db)
	var ds []subscribers.Delivery
	storetest.Eventually(t, "one is claimed", func() bool {
		var err error
		if ds, err = claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		return len(ds) == 1
	})
	put(t, db, store.Schedule{Name: "tick", Spec: calendar.Spec{Every: time.Second}, Jitter: time.Millisecond})
	state := stateOf(t, db, "tick")
	first := (&store.Schedule{Name: "tick"}).OccurrenceID(state.Cursor.Add(time.Second))
	storetest.Eventually(t, "it goes on", func() bool {
		return slices.Contains(idsIn(t, db, db.KeysOf(topic).Ready(topic)), first)
	})
	storetest.Should(t, ds[0].Ack(t.Context()))
	storetest.Must(t, db.Of(topic).PauseSchedule(t.Context(), topic, "tick", store.AnyRevision))
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	ahead := &redis.ZRangeBy{Min: "(" + strconv.FormatInt(now.UnixMilli(), 10), Max: "+inf"}
	if left, err := db.Client().ZRangeByScore(t.Context(), db.KeysOf(topic).Scheduled(topic), ahead).Result(); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	paused := stateOf(t, db, "tick")
	storetest.Must(t, db.Of(topic).ResumeSchedule(t.Context(), topic, "tick", store.AnyRevision))
	if state := awaitMade(t, db, "tick", paused.Made+2); state.Missed != 0 {
		t.Errorf("got %+v", state)
	}
}

// Schedules that were filled while Redis's clock was ahead are counted and logged, once, by the carrier that is elected then, and no more once
// they are resumed.
func TestStoppedByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	ahead := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	for _, name := range []string{"often", "seldom"} {
		s := store.Schedule{Topic: topic, Name: name, Spec: calendar.Spec{Every: 2 * time.Second}}
		storetest.Must(t, storetest.ErrOf(db.Of(topic).RestoreSchedule(t.Context(), &s, &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: ahead, Fell: ahead}})))
	}
	put(t, db, store.Schedule{Name: "fine", Spec: calendar.Spec{Every: time.Hour}})
	var log journal
	c, _ := watch(t, db, carrier.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	stopped := func() (n int) {
		for _, state := range c.States() {
			n += state.Stopped
		}
		return n
	}
	storetest.Eventually(t, "both are told", func() bool {
		return stopped() == 2 && log.has("level=WARN", "redis's clock was ahead when schedules were filled", "schedules=2", "first="+topic+":")
	})
	for _, name := range []string{"often", "seldom"} {
		storetest.Must(t, db.Of(topic).ResumeSchedule(t.Context(), topic, name, store.AnyRevision))
	}
	storetest.Eventually(t, "they go on", func() bool {
		return stopped() == 0 && log.has("level=INFO", "all schedules go on that a clock that was ahead had stopped")
	})
}
