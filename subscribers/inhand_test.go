package subscribers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// publishTo publishes messages that are due at once to a topic.
func publishTo(t *testing.T, db *notify.Store, topic string, n int) {
	t.Helper()
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: []byte("x")}
	}
	storetest.Publish(t, db, messages...)
}

// takeFrom claims n messages of a topic.
func takeFrom(t *testing.T, c *subscribers.Claimer, topic string, n int) []subscribers.Delivery {
	t.Helper()
	ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: n, Lease: time.Minute})
	if err != nil || len(ds) != n {
		t.Fatalf("claimed %d of %d messages: %v", len(ds), n, err)
	}
	return ds
}

// wantInHand checks what workers have in hand, and whether that is all.
func wantInHand(t *testing.T, db *notify.Store, least bool, want store.Held) {
	t.Helper()
	got, err := store.InHandOf(t.Context(), db)
	storetest.Must(t, err)
	for topic, l := range got.Oldest {
		if want[l.Worker][topic] == 0 || l.ID == "" || time.Since(l.Since).Abs() > time.Hour {
			t.Errorf("of %s %+v is the oldest", topic, l)
		}
	}
	got.Oldest = nil
	storetest.Same(t, "in hand", store.InHand{Of: want, Least: least}, got)
}

// What a worker claimed is in its hand until it is settled, also under a longer lease.
func TestInHand(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		db := storetest.Sharded(t, shards)
		wantInHand(t, db, false, store.Held{})
		publishTo(t, db, "a", 7)
		publishTo(t, db, "b", 3)
		anna, bert := called(t, db, "anna"), called(t, db, "bert")
		first := takeFrom(t, anna, "a", 3)
		takeFrom(t, bert, "a", 1)
		last := takeFrom(t, bert, "b", 2)
		wantInHand(t, db, false, store.Held{"anna": {"a": 3}, "bert": {"a": 1, "b": 2}})
		storetest.Must(t, first[0].Ack(t.Context()))
		storetest.Must(t, first[1].Extend(t.Context(), time.Hour))
		storetest.Must(t, storetest.ErrOf(last[0].Nack(t.Context(), time.Hour, "later")))
		wantInHand(t, db, false, store.Held{"anna": {"a": 2}, "bert": {"a": 1, "b": 1}})
	}
}

// Counts have how long a worker has had a message.
func TestOldestLease(t *testing.T) {
	t.Parallel()
	db := storetest.Sharded(t, 1)
	publishTo(t, db, "a", 2)
	publishTo(t, db, "b", 2)
	takeFrom(t, called(t, db, "anna"), "a", 1)
	counts, err := storetest.Inspector(t, db).Count(t.Context(), "a", "b")
	storetest.Must(t, err)
	storetest.Eventually(t, "it has had it for some time", func() bool {
		storetest.Must(t, store.NoteLeases(t.Context(), db, counts))
		return counts[0].OldestLease > 0
	})
	if counts[0].OldestLease > time.Hour || counts[1].OldestLease != 0 {
		t.Errorf("got %+v", counts)
	}
}

// Pages end between messages of one claim, and what is beyond the bound is told.
func TestMuchInHand(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	anna := called(t, db, "anna")
	publishTo(t, db, "a", 5200)
	for n := int64(400); n <= 5200; n += 400 {
		takeFrom(t, anna, "a", 400)
		wantInHand(t, db, n > 5000, store.Held{"anna": {"a": min(n, 5000)}})
	}
}

// While a shard is away, what the others hold is the least.
func TestInHandOfSome(t *testing.T) {
	t.Parallel()
	wantInHand(t, storetest.ShardAway(t, 8, 3), true, store.Held{})
}
