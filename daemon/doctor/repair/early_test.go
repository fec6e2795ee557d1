package repair_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A message that lost its place is not early for that: its record says when it was due first.
func TestLostPlaceIsNotEarly(t *testing.T) {
	t.Parallel()
	store := open(t)
	inspector := storetest.Inspector(t, store)
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	storetest.Publish(
		t, store,
		notify.Message{Topic: "orders", ID: "plain", Due: due},
		notify.Message{Topic: "orders", ID: "keyed", Due: due.Add(time.Hour), Key: "k"},
		notify.Message{Topic: "orders", ID: "moved", Due: due.Add(time.Minute)},
		notify.Message{Topic: "orders", ID: "late", Due: due},
	)
	for id, at := range map[string]time.Time{"moved": due, "late": time.Now()} {
		storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, store).RescheduleAt(t.Context(), "orders", id, at)))
	}
	do(t, store, "DEL", "scheduled:orders")
	do(t, store, "DEL", "ready:orders")
	run(t, store, true)
	for id, want := range map[string]time.Time{"plain": due, "keyed": due.Add(time.Hour), "moved": due} {
		info, err := inspector.Inspect(t.Context(), "orders", id)
		if err != nil || info.State != notify.Scheduled || !info.Due.Equal(want) {
			t.Errorf("%s is %v, due %v, %v; want it scheduled for %v", id, info.State, info.Due, err, want)
		}
	}
	if info, err := inspector.Inspect(t.Context(), "orders", "late"); err != nil || info.State != notify.Ready {
		t.Errorf("what was due is %v, %v", info.State, err)
	}
	if found, _ := run(t, store, false); len(found) > 0 {
		t.Errorf("found again: %v", found)
	}
}
