package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Schedules are pruned without what they publish being read, which may be large.
func TestPruneReadsNoBodies(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var read storetest.Meter
	s.Client().AddHook(&read)
	const n, size = 20, 100_000
	for i := range n {
		one := store.Schedule{
			Topic: "bills", Name: fmt.Sprintf("s%d", i), Spec: calendar.Spec{Every: time.Hour}, Message: record.Record{Body: make([]byte, size)},
		}
		if _, _, err := s.Of("bills").PutSchedule(t.Context(), &one, store.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	for _, isDry := range []bool{true, false} {
		before := read.Load()
		done, err := s.ApplySchedules(t.Context(), store.Apply{Prune: []string{"bills"}, DryRun: isDry})
		if err != nil || len(done) != n || done[0] != (store.Applied{Topic: "bills", Name: "s0", Outcome: store.AppliedDeleted}) {
			t.Errorf("dry run %v: got %v, %v", isDry, done, err)
		}
		if bytes := read.Load() - before; bytes == 0 || bytes > size {
			t.Errorf("dry run %v: Redis answered %d bytes", isDry, bytes)
		}
	}
	if left, err := store.EachSchedule(t.Context(), s, "bills"); err != nil || len(left) > 0 {
		t.Errorf("%d schedules are left, %v", len(left), err)
	}
}
