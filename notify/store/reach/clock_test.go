package reach_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A store never has a later time than Redis, and goes on while Redis is away once it was told the time, by itself or with a survey.
func TestNow(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	at := func() *store.Store { return storetest.Unhurried(storetest.At(t, server.URL(), "clock")) }
	asks, told, never := at(), at(), at()
	time0, err := asks.Home().Time(t.Context())
	storetest.Must(t, err)
	now, err := asks.Now(t.Context())
	time1, errTime := asks.Home().Time(t.Context())
	if err != nil || errTime != nil || now.Before(time0) || now.After(time1) {
		t.Errorf("got %v, %v between %v and %v, %v", now, err, time0, time1, errTime)
	}
	storetest.Must(t, storetest.ErrOf(told.Home().Survey(t.Context(), 1)))
	storetest.Must(t, never.Learn(t.Context()))
	server.Kill()
	for name, s := range map[string]*store.Store{"by itself": asks, "with a survey": told} {
		first, err := s.Now(t.Context())
		if err != nil || first.Before(time0.Add(-time.Millisecond)) {
			t.Errorf("%s: got %v, %v", name, first, err)
		}
		storetest.Eventually(t, "Redis is asked in vain", func() bool { return s.Trouble() != nil || !advances(t, s, first) })
	}
	if now, err := never.Now(t.Context()); err == nil || time.Since(now) > storetest.Deadline {
		t.Errorf("never told: got %v, %v", now, err)
	}
}

// advances has the store tell the time, and reports whether that goes on without an error.
func advances(t *testing.T, s *store.Store, from time.Time) bool {
	now, err := s.Now(t.Context())
	if err != nil || now.Before(from) {
		t.Errorf("got %v, %v after %v", now, err, from)
		return false
	}
	return true
}

// How far two times are apart is told beyond the 292 years of a time.Duration.
func TestApart(t *testing.T) {
	t.Parallel()
	from := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for to, want := range map[time.Time][2]int{
		from:                           {0, 0},
		from.AddDate(1, 0, -1):         {0, 365},
		from.Add(366 * 24 * time.Hour): {1, 0},
		time.Date(9000, 2, 28, 12, 0, 0, 0, time.FixedZone("", 3600)): {6975, 363},
		record.MaxDue: {7975, 305},
	} {
		if years, days := record.Apart(from, to); years != want[0] || days != want[1] {
			t.Errorf("%v: got %d years and %d days, want %v", to, years, days, want)
		}
	}
}
