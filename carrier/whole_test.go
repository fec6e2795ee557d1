package carrier

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// together publishes messages of a topic that are all overdue since one time.
func together(t *testing.T, db *notify.Store, topic string, n int) {
	t.Helper()
	due := now(t, db).Add(time.Hour)
	var all []notify.Message
	for i := range n {
		all = append(all, notify.Message{Topic: topic, ID: fmt.Sprintf("%05d", i), Due: due})
	}
	overdue(t, db, all...)
	storetest.Hasten(t, db, 2*time.Hour, topic)
}

// Messages of a topic that are all due at one time become ready in one call, however many there are, in their order.
func TestOneTimeInOneCall(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	tm := elected(t, db, Options{Batch: 10})
	together(t, db, "t", 500)
	carried, err := db.Home().Carry(t.Context(), store.Carry{Token: tm.token, Epoch: tm.epoch, Lease: tm.o.Lease, Batch: 10, Ready: "0"})
	if err != nil || carried.Moved != 500 || len(carried.Runs) != 1 || carried.Runs[0].N != 500 || carried.Next != record.Never {
		t.Errorf("got %+v, %v", carried, err)
	}
	keys := db.Keys()
	ready, err := db.Client().ZRangeWithScores(t.Context(), keys.Ready("t"), 0, -1).Result()
	if err != nil || len(ready) != 500 || ready[0].Member != "t:00000" || ready[499].Member != "t:00499" || ready[0].Score != ready[499].Score {
		t.Fatalf("ready are %d, %v", len(ready), err)
	}
	if n, err := db.Client().Exists(t.Context(), keys.ScheduledTopics(), keys.Scheduled("t")).Result(); n != 0 || err != nil {
		t.Errorf("%d scheduled sets are left, %v", n, err)
	}
	if at, err := db.Client().ZScore(t.Context(), keys.ReadyTopics(), "t").Result(); err != nil || at != ready[0].Score {
		t.Errorf("the index has %v, %v; want %v", at, err, ready[0].Score)
	}
}

// What is ready already, what is due later, and a member of another topic stay what they are beside messages of one time.
func TestOneTimeBesideOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, db *notify.Store)
		ready   int64
		later   int64
		dead    string
	}{
		{"ready already", func(t *testing.T, db *notify.Store) {
			db.Client().ZAdd(t.Context(), db.Keys().Ready("t"), redis.Z{Score: 1, Member: "t:ready"})
		}, 11, 0, ""},
		{"due later", func(t *testing.T, db *notify.Store) {
			storetest.Publish(t, db, notify.Message{Topic: "t", ID: "later", Delay: time.Hour})
		}, 10, 1, ""},
		{"a stray that sorts first", stray("a:1"), 10, 0, "a:1"},
		{"a stray that sorts last", stray("u:1"), 10, 0, "u:1"},
		{"a stray without a topic", stray("t"), 10, 0, "t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			tm := elected(t, db, Options{Batch: 100})
			together(t, db, "t", 10)
			c.prepare(t, db)
			tm.carryOnce(t)
			keys := db.Keys()
			ready := db.Client().ZCard(t.Context(), keys.Ready("t")).Val()
			later := db.Client().ZCard(t.Context(), keys.Scheduled("t")).Val()
			if ready != c.ready || later != c.later {
				t.Errorf("%d are ready and %d scheduled; want %d and %d", ready, later, c.ready, c.later)
			}
			if n := db.Client().HExists(t.Context(), keys.Deaths(), c.dead).Val(); n != (c.dead != "") {
				t.Errorf("%q is dead: %v", c.dead, n)
			}
		})
	}
}

// stray returns a function that puts a foreign member into the scheduled set, at the time of its first.
func stray(member string) func(*testing.T, *notify.Store) {
	return func(t *testing.T, db *notify.Store) {
		key := db.Keys().Scheduled("t")
		first, err := db.Client().ZRangeWithScores(t.Context(), key, 0, 0).Result()
		if err != nil || len(first) == 0 {
			t.Fatal(first, err)
		}
		db.Client().ZAdd(t.Context(), key, redis.Z{Score: first[0].Score, Member: member})
	}
}
