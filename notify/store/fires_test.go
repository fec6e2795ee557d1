package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
)

// A firing is what Fires calls on with.
type firing struct {
	At     time.Time
	IsMade bool
}

// walked returns up to n firings, found by a walk over each minute: of those up to the cursor only what was made fires, and behind it what the
// count lets the schedule make.
func walked(s *store.Schedule, state *store.ScheduleState, after time.Time, n int) (all []firing) {
	left := s.Count - int(state.Made)
	for at := after.Truncate(time.Minute).Add(time.Minute); len(all) < n; at = at.Add(time.Minute) {
		isMade := slices.ContainsFunc(state.Occurrences, func(one store.Made) bool { return one.At.Equal(at) })
		switch {
		case isMade:
		case !at.After(state.Cursor):
			continue
		case s.Count > 0 && left == 0:
			return all
		default:
			left--
		}
		all = append(all, firing{at, isMade})
	}
	return all
}

// A schedule fires at what it made and at what it is to make, also where some of what it made is behind its cursor, or is no time of its any more.
func TestFires(t *testing.T) {
	t.Parallel()
	begin := time.Date(2030, time.May, 1, 0, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	for range 300 {
		s := store.Schedule{Topic: "t", Name: "n", Spec: calendar.Spec{Every: time.Minute}, Count: rand.IntN(2) * (1 + rand.IntN(20))}
		state := store.ScheduleState{Cursor: minute(rand.IntN(30)), Made: int64(rand.IntN(max(s.Count, 1)))}
		made := rand.Perm(40)[:rand.IntN(10)]
		slices.Sort(made)
		for _, n := range made {
			state.Occurrences = append(state.Occurrences, store.Made{At: minute(n)}, store.Made{At: minute(n).Add(time.Second)})
		}
		after := minute(rand.IntN(50)).Add(time.Duration(rand.IntN(2)) * 30 * time.Second)
		var got []firing
		for at, isMade := range s.Fires(&state, after) {
			if got = append(got, firing{at, isMade}); len(got) == 60 {
				break
			}
		}
		if diff := cmp.Diff(walked(&s, &state, after, 60), got); diff != "" {
			t.Fatalf("%+v, %+v after %s (-want +got):\n%s", s, state, after, diff)
		}
	}
}

// Where a clock was set back by years, what lies between is not walked.
func TestFiresBehindAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	cursor := time.Date(9000, time.May, 1, 0, 0, 0, 0, time.UTC)
	s := store.Schedule{Topic: "t", Name: "n", Spec: calendar.Spec{Every: time.Second}}
	next := s.Following(&store.ScheduleState{Cursor: cursor}, time.Unix(0, 0), 2)
	if want := []time.Time{cursor.Add(time.Second), cursor.Add(2 * time.Second)}; !slices.Equal(next, want) {
		t.Errorf("got %v, want %v", next, want)
	}
}
