package doctor_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// schedule puts a schedule that fires each hour, and as it is changed.
func (w *ward) schedule(topic, name string, change func(*store.Schedule)) {
	w.t.Helper()
	s := store.Schedule{Topic: topic, Name: name, Spec: calendar.Spec{Every: time.Hour}}
	change(&s)
	_, _, err := w.store.Of(topic).PutSchedule(w.t.Context(), &s, store.AnyRevision)
	w.must(err)
}

// ended restores a schedule that was put before its end.
func (w *ward) ended(topic, name string, spec calendar.Spec) {
	w.t.Helper()
	s := store.Schedule{Topic: topic, Name: name, Spec: spec}
	_, err := w.store.Of(topic).RestoreSchedule(w.t.Context(), &s, &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: time.Now()}})
	w.must(err)
}

// state changes a number of the state of a schedule.
func (w *ward) state(topic, name, number string, value int64) {
	w.t.Helper()
	key, ctx := w.store.KeysOf(topic).SchedulesOf(topic), w.t.Context()
	state, err := w.store.Client().HGet(ctx, key, name).Result()
	w.must(err)
	words := strings.Split(state, " ")
	for i, word := range words {
		if strings.HasPrefix(word, number+"=") {
			words[i] = fmt.Sprint(number, "=", value) + strings.TrimLeft(word[len(number)+1:], "0123456789")
		}
	}
	w.must(w.store.Client().HSet(ctx, key, name, strings.Join(words, " ")).Err())
}

const schedulesFine = " by the time zones of "

func (w *ward) fine(n string) string {
	return "ok schedules " + n + "," + schedulesFine + calendar.Version() + ", and none is behind → "
}

// Schedules that wait, are paused or go on are nothing to report; one that is at its end is named, and no fault.
func TestSchedulesInOrder(t *testing.T) {
	w := newWard(t)
	w.expect("schedules", "ok schedules none → ")
	w.schedule("bills", "hourly", func(*store.Schedule) {})
	w.expect("schedules", w.fine("1 schedule"))
	w.schedule("bills", "paused", func(*store.Schedule) {})
	w.must(w.store.Of("bills").PauseSchedule(t.Context(), "bills", "paused", store.AnyRevision))
	w.state("bills", "paused", "cursor", time.Now().Add(-time.Hour).Unix())
	w.schedule("bills", "thrice", func(s *store.Schedule) { s.Count = 3 })
	w.state("bills", "thrice", "made", 3)
	past := time.Unix(1_700_000_000, 0)
	w.ended("shop", "until", calendar.Spec{Every: time.Hour, Until: past})
	w.ended("shop.at", "once", calendar.Spec{At: []time.Time{past}})
	got := w.findings("schedules")
	for _, want := range []string{
		"ok schedules bills thrice: it never fires again, since it made the 3 of its count; if it has served, remove it: bellhop schedule delete bills thrice → ",
		"ok schedules shop until: it never fires again, since its until, 2023-11-14T22:13:20Z, has passed; if it has served, remove it: bellhop schedule delete shop until → ",
		"ok schedules shop.at once: it never fires again, since its times have passed; if it has served, remove it: bellhop schedule delete shop.at once → ",
		w.fine("5 schedules"),
	} {
		if !contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %q", got)
	}
}

func contains(all []string, one string) bool {
	return strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+one+"\n")
}

// A schedule that nobody fills is behind once its grace is over, and one that nobody can read makes nothing.
func TestSchedulesBehind(t *testing.T) {
	w := newWard(t)
	now := time.Now()
	w.schedule("bills", "minutely", func(s *store.Schedule) { s.Spec.Every, s.Grace = time.Minute, 10*time.Minute })
	w.state("bills", "minutely", "cursor", now.Add(-8*time.Minute).Unix())
	w.expect("schedules", w.fine("1 schedule"))
	since := now.Add(-210 * time.Minute).Truncate(time.Second)
	w.schedule("bills", "hourly", func(s *store.Schedule) { s.Spec.From = since.Add(-24 * time.Hour) })
	w.state("bills", "hourly", "cursor", since.Unix()-1)
	w.expect("schedules", fmt.Sprintf("warn schedules bills hourly: nobody made what fires since %s, 3h ago → "+
		"see the check of the carrier above; a live carrier then does what the schedule says of those that are missed", since.UTC().Format(time.RFC3339)))

	w.state("bills", "hourly", "cursor", time.Now().Unix())
	late := time.Now().Add(-150 * time.Second).UnixMilli()
	w.must(w.store.Client().ZAddXX(t.Context(), w.store.KeysOf("bills").Schedules(), redis.Z{Member: "bills:hourly", Score: float64(late)}).Err())
	w.expect("schedules", "warn schedules bills hourly: its next occurrences should have been made 2m ago → "+
		"see the checks of memory and of the carrier above: while Redis is full, or nobody carries, none are made")

	for i := range 6 {
		name := fmt.Sprint("n", i)
		w.schedule("foreign", name, func(*store.Schedule) {})
		w.must(w.store.Client().HSet(t.Context(), w.store.KeysOf("foreign").Rules("foreign"), name, `{"cron":"0 2 30 2 *","zone":"Mars/Base"}`).Err())
	}
	got := w.findings("schedules")
	unread := 0
	for _, line := range got {
		if strings.HasPrefix(line, "fail schedules foreign n") && strings.Contains(line, `: it cannot be read, so it makes nothing: `) && strings.Contains(line, "Mars/Base") &&
			strings.Contains(line, "put it again: bellhop schedule put foreign n") {
			unread++
		}
	}
	if last := got[len(got)-1]; unread < 4 || len(got) != 6 || last != "warn schedules and 2 more schedules → bellhop schedule list" {
		t.Errorf("got %q", got)
	}
}

// A schedule that was filled while the clock of Redis was ahead does not fire until that time.
func TestScheduleOfAClockThatWasAhead(t *testing.T) {
	w := newWard(t)
	next := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	ahead := func(d time.Duration) time.Time { return next.Add(d) }
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		until time.Time
		state store.ScheduleState
		want  string // beside the first time that it misses
	}{
		"fell":   {state: store.ScheduleState{Cursor: ahead(365 * day), Fell: ahead(day)}, want: "fires next at " + ahead(366*day).Format(time.RFC3339)},
		"filled": {state: store.ScheduleState{Cursor: ahead(9 * day), Occurrences: []store.Made{{At: ahead(9 * day), Due: ahead(9 * day), Published: ahead(8 * day)}}}, want: "fires next at " + ahead(10*day).Format(time.RFC3339)},
		"over":   {until: ahead(3 * day), state: store.ScheduleState{Cursor: ahead(3 * day), Fell: ahead(day)}, want: "never fires again"},
		"late": { // the clock was set back by a minute, and nothing is missed
			state: store.ScheduleState{Cursor: next, Occurrences: []store.Made{{At: next, Due: next, Published: next.Add(-59 * time.Minute)}}},
		},
	} {
		s := store.Schedule{Topic: name, Name: "daily", Spec: calendar.Spec{Every: day, From: next.Add(-day), Until: test.until}}
		_, err := w.store.Of(s.Topic).RestoreSchedule(t.Context(), &s, &store.ScheduleRestore{ScheduleState: test.state})
		w.must(err)
		if test.want == "" {
			w.expect("schedules", w.fine("1 schedule"))
		} else {
			w.expect("schedules", fmt.Sprintf("warn schedules %s daily: it misses %s: the clock of Redis was ahead when it was filled, so it %s → "+
				"if that is too late, start it anew: bellhop schedule resume %[1]s daily", s.Topic, next.Format(time.RFC3339), test.want))
			w.must(w.store.Of(s.Topic).ResumeSchedule(t.Context(), s.Topic, "daily", store.AnyRevision))
			w.expect("schedules", w.fine("1 schedule"))
		}
		w.must(w.store.Of(s.Topic).DeleteSchedule(t.Context(), s.Topic, "daily", store.AnyRevision))
	}
}

// A carrier that cannot make what fires, since a key of the topic is foreign, notes that, and the doctor says so.
func TestSchedulesRefused(t *testing.T) {
	w := newWard(t)
	key := w.store.KeysOf("bills").Scheduled("bills")
	storetest.Found(t, w.store)
	w.must(w.store.Client().Set(t.Context(), key, "mine", 0).Err())
	w.schedule("bills", "hourly", func(*store.Schedule) {})
	carriertest.Run(t, w.store)
	storetest.Eventually(t, "the carrier notes that it cannot make it", func() bool {
		_, state, _, err := w.store.Of("bills").Schedule(t.Context(), "bills", "hourly")
		w.must(err)
		return !state.Refused.IsZero()
	})
	w.expect("schedules", "fail schedules bills hourly: it could not be made for <1m, since a key of its topic is foreign → "+
		"run bellhop doctor without --quick, which names that key; after it is removed this goes on within a minute")
}

// A schedule whose message is damaged, which is no part of a list, is unreadable as the carrier says.
func TestSchedulesUnreadForTheCarrier(t *testing.T) {
	w := newWard(t)
	w.schedule("bills", "hourly", func(*store.Schedule) {})
	w.must(w.store.Client().HSet(t.Context(), w.store.KeysOf("bills").Rules("bills"), "hourly", "{\"every\":3600}\nno record").Err())
	w.expect("schedules", w.fine("1 schedule"))
	carriertest.Run(t, w.store)
	want := "fail schedules bills hourly: it cannot be read, so it makes nothing: since TIME the carrier fails to read it: it is damaged, or newer than the daemon that carries, which is to be updated → " +
		"put it again: bellhop schedule put bills hourly; or remove it: bellhop schedule delete bills hourly"
	storetest.Eventually(t, "the doctor says so", func() bool {
		return regexp.MustCompile(`since \S+Z the`).ReplaceAllString(strings.Join(w.findings("schedules"), "\n"), "since TIME the") == want
	})
	w.schedule("bills", "hourly", func(s *store.Schedule) { s.Spec.Every = 2 * time.Hour })
	w.expect("schedules", w.fine("1 schedule"))
}

// Rules of time zones that are not this program's are reported, and whose they are.
func TestSchedulesOfOtherZones(t *testing.T) {
	w := newWard(t)
	w.schedule("bills", "nightly", func(s *store.Schedule) { s.Spec = calendar.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"} })
	keys := w.store.KeysOf("bills")
	of := ""
	if storetest.Shards() > 1 {
		of = fmt.Sprintf("shard %d: ", w.store.Of("bills").Number())
	}
	for version, remedy := range map[string]string{
		"1999a": "update the daemon that carries: one with newer rules makes them anew when it is elected",
		"2999a": "update this program, and each daemon that is as old: where it carries, times are those of its older rules",
	} {
		w.must(w.store.Client().HSet(t.Context(), keys.Topics(), "*:zones", version).Err())
		w.expect("schedules", fmt.Sprintf("warn schedules %sschedules in time zones were made by the rules of %s, this program has those of %s → %s", of, version, calendar.Version(), remedy))
	}
	w.must(w.store.Client().HSet(t.Context(), keys.Topics(), "*:zones", calendar.Version()).Err())
	w.expect("schedules", w.fine("1 schedule"))
}

// A quick run looks at those that the carrier looks at next, of as many schedules as there may be, and a whole one at all.
func TestManySchedules(t *testing.T) {
	w := newWard(t)
	for i := range 1_250 {
		w.schedule("bills", fmt.Sprint("n", i), func(*store.Schedule) {})
	}
	w.state("bills", "n77", "cursor", time.Now().Add(-3*time.Hour).Unix())
	w.must(w.store.Client().ZAddXX(t.Context(), w.store.KeysOf("bills").Schedules(), redis.Z{Member: "bills:n77"}).Err())
	got := w.findings("schedules")
	if len(got) != 1 || !strings.HasPrefix(got[0], "warn schedules bills n77: nobody made what fires since ") {
		t.Errorf("got %q", got)
	}
	w.must(w.store.Of("bills").DeleteSchedule(t.Context(), "bills", "n77", store.AnyRevision))
	w.expect("schedules", "ok schedules 1249 schedules,"+schedulesFine+calendar.Version()+", and none of the 1000 that are looked at next is behind → ")
	lines := report(t, w.config)
	if whole := strings.TrimSuffix(w.fine("1249 schedules"), " → "); !contains(lines, whole) {
		t.Errorf("%s is not in %q", whole, lines)
	}
}
