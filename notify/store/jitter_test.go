package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// An occurrence whose time has passed, and whose message its jitter puts off, is not lost when its schedule is changed: the next are
// withdrawn, to be made anew, and that one is on its way. A pause takes it back.
func TestChangedWithinItsJitter(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*store.Schedule){
		"its message":   func(s *store.Schedule) { s.Message.Body = []byte("other") },
		"its times":     func(s *store.Schedule) { s.Spec.Every = 2 * time.Hour },
		"where it ends": func(s *store.Schedule) { s.Spec.Until = s.Spec.From.Add(3 * time.Hour) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := openRecurring(t)
			now, err := r.db.Now(t.Context())
			r.must(err)
			first := now.Add(-time.Second).Truncate(time.Second).UTC()
			s := hourly(r, "")
			s.Spec.From, s.Jitter = first, 59*time.Minute
			for i := 0; s.Name == "" || s.DueOf(first).Sub(first) < 50*time.Minute; i++ {
				s.Name = fmt.Sprint("n", i)
			}
			r.put(s)
			of := r.only()
			next := first.Add(time.Hour)
			r.due(store.Fill{Of: of, Cursor: next, Next: next, Occurrences: []store.Occurrence{{At: first}, {At: next}}})
			late, ahead := s.OccurrenceID(first), s.OccurrenceID(next)
			if got := r.scheduled(); !slices.Equal(got, []string{late, ahead}) {
				t.Fatalf("got %v", got)
			}
			change(s)
			r.put(s)
			state := r.state(s.Name)
			if got := r.scheduled(); !slices.Equal(got, []string{late}) || len(state.Occurrences) != 1 || !state.Occurrences[0].At.Equal(first) || state.Made != 1 || !state.Cursor.Before(next) {
				t.Errorf("got %v, %+v", got, state)
			}
			r.must(r.shard.PauseSchedule(t.Context(), r.topic, s.Name, store.AnyRevision))
			if got, state := r.scheduled(), r.state(s.Name); len(got) != 0 || len(state.Occurrences) != 0 || state.Made != 0 {
				t.Errorf("paused: got %v, %+v", got, state)
			}
		})
	}
}
