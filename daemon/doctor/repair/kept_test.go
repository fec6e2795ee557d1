package repair_test

import (
	"errors"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// What is kept of messages that succeeded is no fault. Where a key that leads to it is
// lost, or leads to nothing, the repair sets that right, and the results stay.
func TestKept(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, store *notify.Store)
		found  []string
		gone   bool
	}{
		{name: "none", damage: func(*testing.T, *notify.Store) {}},
		{"the set of a topic is lost", func(t *testing.T, store *notify.Store) {
			do(t, store, "DEL", "done:orders")
		}, []string{"not taken orders:kept messages"}, false},
		{"the set of taken ids is lost", func(t *testing.T, store *notify.Store) {
			do(t, store, "DEL", "taken")
		}, []string{"not taken orders:kept messages"}, false},
		{"the index of topics is lost", func(t *testing.T, store *notify.Store) {
			do(t, store, "DEL", "done-first")
		}, []string{"index orders done-first"}, false},
		{"the index of topics is late", func(t *testing.T, store *notify.Store) {
			do(t, store, "ZADD", "done-first", 9e12, "orders")
		}, []string{"index orders done-first"}, false},
		{"members without a record", func(t *testing.T, store *notify.Store) {
			do(t, store, "ZADD", "done:orders", 9e12, "orders:ghost", 9e12, "mail:kept", 9e12, "no member")
			do(t, store, "ZADD", "taken", 9e12, "orders:ghost")
		}, []string{"no record mail:kept done:orders", "no record no member done:orders", "no record orders:ghost done:orders", "of nothing orders:ghost taken"}, false},
		{"a member that is a message", func(t *testing.T, store *notify.Store) {
			storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "waits", Delay: time.Hour})
			do(t, store, "ZADD", "done:orders", 9e12, "orders:waits")
		}, []string{"no record orders:waits done:orders"}, false},
		{"the record is lost", func(t *testing.T, store *notify.Store) {
			do(t, store, "HDEL", "messages", "orders:kept")
		}, []string{"no record orders:kept done:orders", "of nothing orders:kept attempts", "of nothing orders:kept taken"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "kept"})
			claimer := subscriberstest.Claimer(t, store)
			ds, err := claimer.Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			do(t, store, "HSET", "attempts", "orders:kept", "1\n1 - - no")
			storetest.Must(t, storetest.ErrOf(ds[0].AckWith(t.Context(), notify.AckResult{Body: []byte("x"), Keep: time.Hour})))
			test.damage(t, store)
			for _, apply := range []bool{false, true} {
				got, _ := run(t, store, apply)
				if apply && test.found != nil && test.found[0] == "not taken orders:kept messages" {
					got = got[:min(len(got), 1)] // the index may follow
				}
				if diff := gocmp.Diff(test.found, got); diff != "" {
					t.Errorf("found, repairing: %v (-want +got):\n%s", apply, diff)
				}
			}
			if got, _ := run(t, store, false); len(got) > 0 {
				t.Errorf("found again: %v", got)
			}
			info, err := storetest.Inspector(t, store).Inspect(t.Context(), "orders", "kept")
			if test.gone {
				if !errors.Is(err, notify.ErrNotFound) {
					t.Errorf("got %+v, %v", info, err)
				}
				return
			}
			if err != nil || string(info.Result) != "x" || len(info.History) != 1 {
				t.Errorf("got %+v, %v", info, err)
			}
			page, err := storetest.Inspector(t, store).List(t.Context(), "orders", notify.Done, 10, "")
			if err != nil || len(page.Messages) != 1 {
				t.Errorf("listed %+v, %v", page, err)
			}
		})
	}
}
