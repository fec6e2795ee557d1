package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// leasedTwice returns the present lease of a message, and an earlier one. A worker has both for a moment when it gave the message back, and
// gets it again before all is done for the lease before.
func leasedTwice(t *testing.T, db *notify.Store, m notify.Message) (now, before store.Lease) {
	t.Helper()
	storetest.Publish(t, db, m)
	shard := db.Of(m.Topic)
	claim := func() store.Lease {
		t.Helper()
		got, err := shard.Claim(t.Context(), store.Claim{Topic: m.Topic, Max: 1, Lease: time.Hour})
		if err != nil || len(got.Messages) != 1 {
			t.Fatal(got, err)
		}
		return got.Messages[0].Lease
	}
	before = claim()
	if lost, err := shard.Release(t.Context(), m.Topic, reach.Inbox{}, 0, []store.Return{{Lease: before}}); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	return claim(), before
}

// Where a call names a message twice, by its present lease and by an earlier one, the present one alone counts.
func TestMemberTwice(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for name, m := range map[string]notify.Message{"plain": {}, "with a lease of its own": {Lease: time.Minute}, "with an end of its try": {TryTimeout: time.Minute}} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the present one first: %v", name, first), func(t *testing.T) {
				m.Topic, m.ID, m.Body = "t", notify.NewID(), []byte("x")
				now, before := leasedTwice(t, db, m)
				both, at := []store.Lease{now, before}, 0
				if !first {
					slices.Reverse(both)
					at = 1
				}
				shard := db.Of("t")
				for _, lease := range []time.Duration{0, time.Hour} {
					e, err := shard.Extend(t.Context(), "t", "", both, lease)
					if err != nil || !slices.Equal(e.Lost, []int{1 - at}) {
						t.Fatalf("extended: %+v, %v", e, err)
					}
					both[at].Receipt = e.Receipts[at]
				}
				due := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
				back := []store.Return{{Lease: both[0]}, {Lease: both[1]}}
				back[at].Due = due
				if lost, err := shard.Release(t.Context(), "t", reach.Inbox{}, 0, back); err != nil || !slices.Equal(lost, []int{1 - at}) {
					t.Fatalf("released: %v, %v", lost, err)
				}
				got, err := shard.Claim(t.Context(), store.Claim{Topic: "t", Max: 1})
				if err != nil || len(got.Messages) != 1 || !got.Messages[0].Due.Equal(due) {
					t.Fatalf("claimed again: %+v, %v", got, err)
				}
				both[at] = got.Messages[0].Lease
				if lost, err := shard.Ack(t.Context(), "t", both); err != nil || !slices.Equal(lost, []int{1 - at}) {
					t.Errorf("acknowledged: %v, %v", lost, err)
				}
			})
		}
	}
}
