package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var stuckAfter = store.StuckAfter{Open: time.Hour, Restoring: time.Hour}

// examine returns what an examination asks first of the shard that is Home, without the times of the answers.
func examine(ctx context.Context, home store.Shard) (answers []any, err error) {
	add := func(answer any, one error) { answers, err = append(answers, answer), errors.Join(err, one) }
	workers, one := home.Workers(ctx)
	add(workers, one)
	pushes, one := home.Pushes(ctx)
	add(pushes, one)
	stuck, one := home.StuckGroups(ctx, 100, stuckAfter, store.StuckPage{})
	stuck.Now = time.Time{}
	add(stuck, one)
	hand, one := home.InHand(ctx)
	add(hand, one)
	schedules, one := home.AllSchedules(ctx, 100, store.Mark{})
	schedules.Now = time.Time{}
	add(schedules, one)
	backlog, one := home.Backlog(ctx)
	add(backlog, one)
	failing, _, one := home.Failing(ctx)
	add(failing, one)
	settings, one := home.Settings(ctx, notify.AllTopics)
	add(settings, one)
	return answers, err
}

// noted returns a store of the same prefix at an address, and what returns the names of the scripts that it called since it was asked last.
func noted(t *testing.T, open func() *notify.Store) (db *notify.Store, called func() []string) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	db = open()
	db.Observe(func(script string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, script)
	})
	return db, func() []string {
		mu.Lock()
		defer mu.Unlock()
		before := names
		names = nil
		return before
	}
}

// What an examination asks first is answered by one call of each shard as by many. Where one of them fails, or Redis runs scripts, each is made by
// itself.
func TestAheadOfExam(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the calls of one are counted")
	plain := storetest.Open(t)
	again := func() *notify.Store { return storetest.At(t, storetest.URL(), plain.Prefix()) }
	server, trial := storetest.Trial(t, "trial")
	trialAgain := func() *notify.Store {
		return storetest.With(t, notify.Config{URL: server.URL(), Dial: server.Dial, Prefix: "trial"})
	}
	for name, c := range map[string]struct {
		db   *notify.Store
		open func() *notify.Store
		ones bool // it is asked for each by itself
	}{"a Redis": {plain, again, false}, "the trial server": {trial, trialAgain, true}} {
		storetest.Publish(t, c.db, notify.Message{Topic: "rows", ID: "a", Group: "g"}, notify.Message{Topic: "rows", ID: "b"})
		one := store.Schedule{Topic: "bills", Name: "hourly", Spec: calendar.Spec{Every: time.Hour}}
		_, _, err := c.db.Home().PutSchedule(t.Context(), &one, store.AnyRevision)
		storetest.Must(t, err)
		want, err := examine(t.Context(), c.db.Home())
		storetest.Must(t, err)
		db, called := noted(t, c.open)
		ctx := store.AheadOfExam(t.Context(), []store.Shard{db.Home()}, 10, 100, stuckAfter)
		got, err := examine(ctx, db.Home())
		storetest.Must(t, err)
		storetest.Same(t, name, want, got)
		if calls := called(); slices.Equal(calls, []string{"joined"}) == c.ones {
			t.Errorf("%s: called %q", name, calls)
		}
	}
	db, called := noted(t, again)
	storetest.Must(t, db.Client().Del(t.Context(), db.Keys().Schedules()).Err())
	storetest.Must(t, db.Client().Set(t.Context(), db.Keys().Schedules(), "foreign", 0).Err())
	ctx := store.AheadOfExam(t.Context(), []store.Shard{db.Home()}, 10, 100, stuckAfter)
	if got, err := examine(ctx, db.Home()); err == nil || len(got) != 8 {
		t.Errorf("with a foreign key: %v, %v", got, err)
	}
	if calls := called(); len(calls) != 9 {
		t.Errorf("with a foreign key: called %q", calls)
	}
}

// A survey is one call, unless there is more than a page of what it lists.
func TestSurveyIsOneCall(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the calls of one are counted")
	plain := storetest.Open(t)
	storetest.Publish(t, plain, notify.Message{Topic: "rows", ID: "a"})
	db, called := noted(t, func() *notify.Store { return storetest.At(t, storetest.URL(), plain.Prefix()) })
	survey, err := storetest.Inspector(t, db).Survey(t.Context(), 10)
	if err != nil || len(survey.Overdue) != 1 || survey.Topics != 1 {
		t.Errorf("got %+v, %v", survey, err)
	}
	storetest.Same(t, "calls", []string{"joined"}, called())
}

// To look for the carrier founds no store.
func TestCarrierFoundsNothing(t *testing.T) {
	t.Parallel()
	db := storetest.At(t, storetest.URL(), "test-"+notify.NewID())
	elected, err := db.Home().Carrier(t.Context())
	founded, errFounded := db.Founded(t.Context())
	if err != nil || errFounded != nil || founded || elected != (store.ElectedCarrier{}) {
		t.Errorf("got %+v, %v; founded: %v, %v", elected, err, founded, errFounded)
	}
}
