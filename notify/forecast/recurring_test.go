package forecast_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// put puts a schedule.
func put(t testing.TB, s *notify.Store, of store.Schedule) {
	t.Helper()
	if _, _, err := s.Of(of.Topic).PutSchedule(t.Context(), &of, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

// carry runs a carrier until the test ends.
func carry(t testing.TB, s *notify.Store) {
	t.Helper()
	carriertest.Run(t, s)
}

// made waits until some occurrences of a schedule are made.
func made(t testing.TB, s *notify.Store, topic, name string, n int64) {
	t.Helper()
	storetest.Eventually(t, name+" is made ahead", func() bool {
		_, state, _, err := s.Of(topic).Schedule(t.Context(), topic, name)
		storetest.Must(t, err)
		return state.Made == n
	})
}

func sum(counts []int64) (n int64) {
	for _, one := range counts {
		n += one
	}
	return n
}

// What is made ahead and what is computed are together all that a schedule fires, minute by minute.
func TestRecurringAgainstBruteForce(t *testing.T) {
	t.Parallel()
	berlin, err := calendar.Zone("Europe/Berlin")
	storetest.Must(t, err)
	from := time.Now().Add(time.Hour).Truncate(time.Minute).UTC()
	hourly := calendar.Spec{Every: time.Hour, From: from}
	isHourly := func(at time.Time) bool { return at.Sub(from)%time.Hour == 0 }
	later := from.Add(100*time.Hour + time.Minute)
	nothing := func(time.Time) bool { return false }
	all := []struct {
		store.Schedule
		is    func(at time.Time) bool
		count int
		made  int64
	}{
		{store.Schedule{Topic: "a", Name: "hourly", Spec: hourly}, isHourly, 0, 2},
		{store.Schedule{Topic: "a", Name: "spread", Spec: hourly, Jitter: 50 * time.Minute}, isHourly, 0, 2},
		{store.Schedule{Topic: "b.c", Name: "daily", Spec: calendar.Spec{Cron: "17 12 * * 1-5", Zone: "Europe/Berlin", From: from}}, func(at time.Time) bool {
			at = at.In(berlin)
			return at.Hour() == 12 && at.Minute() == 17 && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday
		}, 0, 2},
		{store.Schedule{Topic: "b.c", Name: "counted", Spec: hourly, Count: 30}, isHourly, 30, 2},
		{store.Schedule{Topic: "b.c", Name: "over", Spec: hourly, Count: 2}, isHourly, 2, 2},
		{store.Schedule{Topic: "b.d", Name: "until", Spec: calendar.Spec{Every: time.Hour, From: from, Until: later}}, func(at time.Time) bool { return isHourly(at) && !at.After(later) }, 0, 2},
		{store.Schedule{Topic: "b.d", Name: "at", Spec: calendar.Spec{At: []time.Time{later, from, from.Add(time.Hour)}}}, func(at time.Time) bool { return at.Equal(later) || at.Equal(from) || at.Equal(from.Add(time.Hour)) }, 0, 2},
		{store.Schedule{Topic: "b.d", Name: "paused", Spec: hourly}, nothing, 0, 0},
		{store.Schedule{Topic: "b.d", Name: "next-year", Spec: calendar.Spec{Every: time.Hour, From: from.AddDate(1, 0, 0)}}, nothing, 0, 2},
	}
	for _, carried := range []bool{false, true} {
		for _, shards := range []int{1, 8} {
			s := storetest.Sharded(t, shards)
			storetest.Publish(t, s, notify.Message{Topic: "x", Due: from})
			if carried {
				carry(t, s)
			}
			for i := range all {
				put(t, s, all[i].Schedule)
			}
			storetest.Must(t, s.Of("b.d").PauseSchedule(t.Context(), "b.d", "paused", store.AnyRevision))
			for i := range all {
				if one := &all[i]; carried {
					made(t, s, one.Topic, one.Name, one.made)
				}
			}
			for _, test := range []struct {
				o     forecast.Options
				wants func(topic string) bool
			}{
				{forecast.Options{Bucket: time.Hour, Count: 1000}, func(string) bool { return true }},
				{forecast.Options{Bucket: forecast.Day, Count: 30, Topics: patterns(t, "b.*")}, func(topic string) bool { return topic != "a" }},
				{forecast.Options{Bucket: time.Hour, Count: 36, Topics: patterns(t, "b.d", "a")}, func(topic string) bool { return topic != "b.c" }},
				{forecast.Options{Bucket: forecast.Day, Count: 200, Topics: patterns(t, "b.c")}, func(topic string) bool { return topic == "b.c" }},
			} {
				got := of(t, s, test.o)
				want := make([]int64, test.o.Count)
				bucket := func(at time.Time) int { return int(at.Sub(got.From) / got.Bucket) }
				if len(test.o.Topics) == 0 {
					want[bucket(from)]++
				}
				for i := range all {
					one := &all[i]
					for at, n := from, 0; test.wants(one.Topic) && bucket(at) < len(want) && (one.count == 0 || n < one.count); at = at.Add(time.Minute) {
						if one.is(at) {
							n++
							if b := bucket(one.DueOf(at)); b < len(want) {
								want[b]++
							}
						}
					}
				}
				all := slices.Clone(got.Counts)
				for i := range all {
					all[i] += got.Recurring[i]
				}
				if diff := cmp.Diff(want, all); diff != "" || got.SchedulesLeft || !got.RecurringUntil.IsZero() {
					t.Errorf("%d shards, carried %v, %+v: %s\n%+v", shards, carried, test.o, diff, got)
				}
				if carried == (sum(got.Counts) <= 1) {
					t.Errorf("carried %v: messages %v", carried, got.Counts)
				}
			}
		}
	}
}

// A schedule whose next occurrence cannot be made adds nothing, nor does one that cannot be read.
func TestRefusedAndUnreadable(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, name := range []string{"refused", "unreadable", "fine"} {
		put(t, s, store.Schedule{Topic: "a", Name: name, Spec: calendar.Spec{Every: 24 * time.Hour}})
	}
	keys := s.KeysOf("a")
	for key, value := range map[string][2]string{
		keys.SchedulesOf("a"): {"refused", fmt.Sprintf(" revision=1 cursor=%d refused=1700000000000\n", time.Now().Unix())},
		keys.Rules("a"):       {"unreadable", "what"},
	} {
		storetest.Must(t, s.Client().HSet(t.Context(), key, value[0], value[1]).Err())
	}
	for _, topics := range [][]notify.Pattern{nil, patterns(t, "a"), patterns(t, "*")} {
		f := of(t, s, forecast.Options{Bucket: forecast.Day, Count: 11, Topics: topics})
		if n := sum(f.Recurring); n != 10 && n != 11 || f.Recurring[5] != 1 {
			t.Errorf("%v: %+v", topics, f)
		}
	}
}

// Up to a thousand occurrences of a schedule are counted, and until when all are is told.
func TestRecurringCut(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	from := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	put(t, s, store.Schedule{Topic: "a", Name: "second", Spec: calendar.Spec{Every: time.Second, From: from}})
	put(t, s, store.Schedule{Topic: "a", Name: "minute", Spec: calendar.Spec{Every: time.Minute, From: from}})
	for _, topics := range [][]notify.Pattern{nil, patterns(t, "a"), patterns(t, ">"), patterns(t, "*")} {
		f := of(t, s, forecast.Options{Bucket: time.Minute, Count: 200, Topics: topics})
		if n := sum(f.Recurring); n < 1000+130 || n > 1000+145 || !f.RecurringUntil.Equal(from.Add(1000*time.Second)) || f.SchedulesLeft {
			t.Errorf("%v: %d, %+v", topics, n, f)
		}
		if f = of(t, s, forecast.Options{Bucket: time.Minute, Count: 70, Topics: topics}); !f.RecurringUntil.IsZero() {
			t.Errorf("%v: %+v", topics, f)
		}
	}
	if f := of(t, s, forecast.Options{Topics: patterns(t, "b")}); f.Recurring != nil {
		t.Errorf("got %+v", f)
	}
}

// copies puts many copies of a schedule that is there.
func copies(t testing.TB, s *notify.Store, topic, name string, n int) {
	t.Helper()
	client, keys := s.Client(), s.KeysOf(topic)
	rule, state := client.HGet(t.Context(), keys.Rules(topic), name).Val(), client.HGet(t.Context(), keys.SchedulesOf(topic), name).Val()
	at := client.ZScore(t.Context(), keys.Schedules(), topic+":"+name).Val()
	pipe := client.Pipeline()
	for i := range n {
		copied := fmt.Sprint(name, i)
		pipe.HSet(t.Context(), keys.Rules(topic), copied, rule)
		pipe.HSet(t.Context(), keys.SchedulesOf(topic), copied, state)
		pipe.ZAdd(t.Context(), keys.Schedules(), redis.Z{Score: at, Member: topic + ":" + copied})
	}
	storetest.Must(t, storetest.ErrOf(pipe.Exec(t.Context())))
}

// Of very many schedules some are read, and it is told that there are others, and until when it has all.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 1)
	began := time.Now()
	put(t, s, store.Schedule{Topic: "a", Name: "hourly", Spec: calendar.Spec{Every: time.Hour, From: began.Add(time.Hour).Truncate(time.Second)}})
	copies(t, s, "a", "hourly", forecast.MaxSchedules+200)
	for _, topics := range [][]notify.Pattern{nil, patterns(t, "a")} {
		f := of(t, s, forecast.Options{Count: 3, Topics: topics})
		if n := sum(f.Recurring); n < forecast.MaxSchedules || n > (forecast.MaxSchedules+100)*2 || !f.SchedulesLeft || f.RecurringUntil.Before(began.Add(-time.Second)) || f.RecurringUntil.After(time.Now()) {
			t.Errorf("%v: %d, %+v", topics, n, f)
		}
	}
}

// calls counts the scripts that run on a store, by name.
func calls(s *notify.Store) func() map[string]int {
	var mu sync.Mutex
	made := make(map[string]int)
	s.Observe(func(script string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		made[script]++
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		was := maps.Clone(made)
		clear(made)
		return was
	}
}

// A forecast of a store without schedules makes no call for them. Those that fire behind its last bucket are not read.
func TestSchedulesNotRead(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 1)
	storetest.Publish(t, s, notify.Message{Topic: "a", Delay: time.Hour})
	ran := calls(s)
	questions := [][]notify.Pattern{nil, patterns(t, ">"), patterns(t, "a"), patterns(t, "a", "b"), patterns(t, "*")}
	for _, topics := range questions {
		ran()
		f := of(t, s, forecast.Options{Topics: topics})
		want := map[string]int{"forecast": 1}
		if f.Broadcasts != nil {
			want["forecast"]++
		}
		if diff := cmp.Diff(want, ran()); diff != "" || f.Recurring != nil {
			t.Errorf("%v: %s\n%+v", topics, diff, f)
		}
	}
	carry(t, s)
	for i := range 300 {
		put(t, s, store.Schedule{Topic: "a", Name: fmt.Sprint("yearly", i), Spec: calendar.Spec{Every: 366 * 24 * time.Hour, From: time.Now().AddDate(0, 6, 0).Truncate(time.Second)}})
	}
	made(t, s, "a", "yearly299", 2)
	storetest.Eventually(t, "all are made ahead", func() bool {
		ran()
		of(t, s, forecast.Options{Topics: patterns(t, "*")})
		return ran()["all_schedules"] == 1
	})
}
