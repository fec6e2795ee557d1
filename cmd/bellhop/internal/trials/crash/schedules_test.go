package crash_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

var killsFlag = flag.Int("crash.kills", 8, "how many carriers TestKilledAtTheDueSecond kills")

// putSchedule puts a schedule of the topic.
func putSchedule(t *testing.T, db *notify.Store, s store.Schedule) {
	t.Helper()
	s.Topic = topic
	if _, _, err := db.Of(topic).PutSchedule(t.Context(), &s, store.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func scheduleState(t *testing.T, db *notify.Store, name string) store.ScheduleState {
	t.Helper()
	_, state, _, err := db.Of(topic).Schedule(t.Context(), topic, name)
	storetest.Must(t, err)
	return state
}

// occurrences returns the times of the occurrences of a schedule that were handled, in order.
func (l *ledger) occurrences(t *testing.T, name string) (all []time.Time) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.handled {
		if of, text, _ := strings.Cut(id, "~"); of == name {
			at, err := time.Parse(time.RFC3339, text)
			storetest.Must(t, err)
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// Carriers are killed by kill -9 as a second begins at which schedules fire, while some are put anew, so that what was made ahead is withdrawn
// and made again: each second of each is handled once.
func TestKilledAtTheDueSecond(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	all, names := make(map[string]*process), 0
	begin := func() {
		name := fmt.Sprint("c", names)
		names++
		all[name] = start(t, db, "carrier", func(string) {}, "CRASH_NAME="+name, "CRASH_LEASE=1s")
	}
	for range 3 {
		begin()
	}
	l := newLedger()
	worker(t, db, l, subscribers.HandleOptions{})
	const schedules = 8
	change := func(i, version int) {
		putSchedule(t, db, store.Schedule{
			Name: fmt.Sprint("s", i), Spec: calendar.Spec{Every: time.Second}, Message: notify.Record{Body: fmt.Append(nil, version)},
		})
	}
	for i := range schedules {
		change(i, 0)
	}
	r, last := rand.New(rand.NewPCG(1, 2)), ""
	for kill := range *killsFlag {
		victim := elected(t, db, last).Name
		now := clock(t, db)
		time.Sleep(now.Truncate(time.Second).Add(time.Second - time.Duration(r.IntN(20))*time.Millisecond).Sub(now))
		for i := range schedules / 2 {
			change(i, kill+1)
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
		all[victim].end(syscall.SIGKILL)
		last = victim
		begin()
	}
	seen := l.size()
	storetest.Eventually(t, "all go on", func() bool { return l.size() > seen+2*schedules })
	for i := range schedules {
		storetest.Must(t, db.Of(topic).DeleteSchedule(t.Context(), topic, fmt.Sprint("s", i), store.AnyRevision))
	}
	gone(t, db)
	l.once(t)
	for i := range schedules {
		times := l.occurrences(t, fmt.Sprint("s", i))
		for n, at := range times {
			if want := times[0].Add(time.Duration(n) * time.Second); !at.Equal(want) {
				t.Fatalf("s%d: %s came behind %s", i, at, times[n-1])
			}
		}
		if len(times) < *killsFlag {
			t.Errorf("s%d: %d seconds, over %d kills", i, len(times), *killsFlag)
		}
	}
}

// Redis is away while ten occurrences of each schedule pass, and its clock is an hour later when it is back: each schedule makes of them what its
// missed says. Then the clock is an hour earlier, and later again: nothing comes twice, and nothing is missed that was made.
func TestOccurrencesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	m, redis := machine.Start(t, "--appendfsync", "always")
	db := storetest.At(t, redis.URL(), "clock")
	c, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	l := newLedger()
	worker(t, db, l, subscribers.HandleOptions{})
	now := clock(t, db)
	all := []store.MissedPolicy{store.MissedOne, store.MissedSkip, store.MissedAll}
	for _, missed := range all {
		s := store.Schedule{Name: string(missed), Spec: calendar.Spec{Every: 6 * time.Minute, From: now.Truncate(time.Second).Add(3 * time.Minute)}, Missed: missed}
		if missed == store.MissedAll {
			s.Catchup = 2 * time.Hour
		}
		putSchedule(t, db, s)
	}
	made := func(name store.MissedPolicy, n int64) {
		storetest.Eventually(t, fmt.Sprint(name, " has made ", n), func() bool { return scheduleState(t, db, string(name)).Made == n })
	}
	for _, missed := range all {
		made(missed, 2)
	}
	away := func(by time.Duration) {
		t.Helper()
		redis.Kill()
		storetest.Must(t, m.SetClock(by))
		if redis, err = redis.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(redis.Stop)
	}
	handled := func(hours int, want map[store.MissedPolicy]int) {
		t.Helper()
		for _, name := range all {
			storetest.Eventually(t, fmt.Sprintf("%s: %d occurrences of %d hours", name, want[name], hours), func() bool {
				return len(l.occurrences(t, string(name))) == want[name]
			})
			storetest.Eventually(t, fmt.Sprintf("%s has settled %d hours", name, hours), func() bool {
				return scheduleState(t, db, string(name)).Cursor.After(now.Add(time.Duration(hours) * time.Hour))
			})
			if state := scheduleState(t, db, string(name)); int(state.Missed)+want[name] != 10*hours {
				t.Errorf("%s: %d came and %d count as missed in %d hours", name, want[name], state.Missed, hours)
			}
		}
	}
	away(time.Hour)
	handled(1, map[store.MissedPolicy]int{store.MissedOne: 1, store.MissedSkip: 0, store.MissedAll: 10})
	away(0)
	storetest.Publish(t, db, notify.Message{Topic: "probe", ID: "a", Body: []byte("x"), Delay: time.Millisecond})
	storetest.Eventually(t, "it is carried at the earlier clock", func() bool {
		c, err := storetest.Count(db, "probe")
		return err == nil && c.Ready == 1
	})
	away(time.Hour)
	handled(1, map[store.MissedPolicy]int{store.MissedOne: 1, store.MissedSkip: 0, store.MissedAll: 10})
	away(2 * time.Hour)
	handled(2, map[store.MissedPolicy]int{store.MissedOne: 2, store.MissedSkip: 0, store.MissedAll: 20})
	l.once(t)
	if latest := l.occurrences(t, string(store.MissedOne)); latest[1].Sub(latest[0]) != time.Hour {
		t.Errorf("the latest of each hour are %v", latest)
	}
}
