package carrier

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// elected returns a term of a carrier, so that the test makes its calls.
func elected(t *testing.T, db *notify.Store, o Options) *term {
	t.Helper()
	storetest.OneShard(t, "a call carries topics of one")
	o.Lease = MaxLease
	c, err := New(db, o)
	storetest.Must(t, err)
	tm, _, err := c.all()[0].elect(t.Context())
	if err != nil || tm == nil {
		t.Fatalf("elected: %v, %v", tm, err)
	}
	return tm
}

// carryOnce makes one call.
func (t *term) carryOnce(test *testing.T) {
	test.Helper()
	storetest.Must(test, storetest.ErrOf(t.call(test.Context())))
}

// overdue publishes messages that are due within the next ms, and waits until they are.
func overdue(t *testing.T, db *notify.Store, messages ...notify.Message) {
	t.Helper()
	for i := range messages {
		messages[i].Body = []byte("x")
		if messages[i].Due.IsZero() && messages[i].Delay == 0 {
			messages[i].Delay = time.Millisecond
		}
	}
	storetest.Publish(t, db, messages...)
	end := now(t, db).Add(2 * time.Millisecond)
	storetest.Eventually(t, "they are due", func() bool { return now(t, db).After(end) })
}

func now(t *testing.T, db *notify.Store) time.Time {
	t.Helper()
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

func many(n int, message func(i int) notify.Message) []notify.Message {
	all := make([]notify.Message, n)
	for i := range all {
		all[i] = message(i)
	}
	return all
}

// card returns how many members a sorted set has.
func card(t *testing.T, db *notify.Store, key string) int {
	t.Helper()
	n, err := db.Client().ZCard(t.Context(), key).Result()
	storetest.Must(t, err)
	return int(n)
}

// A message that is due beside the backlog of another topic is made ready in the next call, and the backlog goes on.
func TestBacklogOfOneTopic(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	tm := elected(t, db, Options{})
	due := now(t, db).Add(time.Hour)
	storetest.Publish(t, db, many(10_000, func(i int) notify.Message {
		return notify.Message{Topic: "big", Body: []byte("x"), Due: due.Add(time.Duration(i/20) * time.Millisecond)}
	})...)
	storetest.Hasten(t, db, 2*time.Hour, "big")
	tm.carryOnce(t)
	for i := range 5 {
		name, before := fmt.Sprint("small", i), card(t, db, db.KeysOf("big").Ready("big"))
		overdue(t, db, notify.Message{Topic: name})
		tm.carryOnce(t)
		if n := card(t, db, db.Keys().Ready(name)); n != 1 {
			t.Errorf("%d of %s are ready after one call", n, name)
		}
		if n := card(t, db, db.KeysOf("big").Ready("big")); n <= before {
			t.Errorf("the backlog stands still at %d", n)
		}
	}
	storetest.Heads(t, db)
}

// The same beside a backlog of many topics with one message, or several, each; the oldest of these is made ready as well.
func TestBacklogOfManyTopics(t *testing.T) {
	t.Parallel()
	for _, each := range []int{1, 5} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			db := storetest.Open(t)
			tm := elected(t, db, Options{})
			const topics = 1200
			overdue(t, db, notify.Message{Topic: "oldest"})
			overdue(t, db, many(topics*each, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprintf("t.%d", i%topics)} })...)
			overdue(t, db, notify.Message{Topic: "new"})
			tm.carryOnce(t)
			for _, name := range []string{"oldest", "new"} {
				if n := card(t, db, db.Keys().Ready(name)); n != 1 {
					t.Errorf("%d of %s are ready after one call", n, name)
				}
			}
			for calls := 1; card(t, db, db.Keys().ScheduledTopics()) > 0; calls++ {
				if calls > topics*each {
					t.Fatal("it does not end")
				}
				tm.carryOnce(t)
			}
			storetest.Heads(t, db)
		})
	}
}

// Shares of a call that some topics do not need go to the others, so that a backlog beside them is not worked off more slowly.
func TestBatchIsUsedUp(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	tm := elected(t, db, Options{Batch: 100})
	big := func(i int) notify.Message { return notify.Message{Topic: fmt.Sprint("big", i%2)} }
	overdue(t, db, many(2, big)...) // at a time of their own: what has one time is carried in one call
	overdue(t, db, append(many(300, big),
		many(9, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprint("small", i)} })...)...)
	tm.carryOnce(t)
	big0, big1, small := card(t, db, db.Keys().Ready("big0")), card(t, db, db.Keys().Ready("big1")), 0
	for i := range 9 {
		small += card(t, db, db.Keys().Ready(fmt.Sprint("small", i)))
	}
	if small != 9 || min(big0, big1) < 100/11 || big0+big1 != 100-9 {
		t.Errorf("of the backlogs %d and %d are ready, and %d others; want 91 together, and 9", big0, big1, small)
	}
}

// After every call of a backlog of several topics, the ready messages of each topic were due no later than its scheduled ones.
func TestOrderInABacklog(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	tm := elected(t, db, Options{Batch: 64})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"}
	start := now(t, db)
	overdue(t, db, many(5000, func(i int) notify.Message {
		return notify.Message{Topic: names[min(rand.IntN(len(names)), rand.IntN(len(names)))], Due: start.Add(time.Hour + time.Duration(rand.IntN(200))*time.Millisecond)}
	})...)
	storetest.Hasten(t, db, 2*time.Hour, names...)
	client, keys := db.Client(), db.Keys()
	last := func(key string, rank int64) (redis.Z, bool) {
		found, err := client.ZRangeWithScores(t.Context(), key, rank, rank).Result()
		storetest.Must(t, err)
		if len(found) == 0 {
			return redis.Z{}, false
		}
		return found[0], true
	}
	for card(t, db, keys.ScheduledTopics()) > 0 {
		tm.carryOnce(t)
		for _, name := range names {
			ready, some := last(keys.Ready(name), -1)
			waits, more := last(keys.Scheduled(name), 0)
			if some && more && (ready.Score > waits.Score || ready.Score == waits.Score && strings.Compare(ready.Member.(string), waits.Member.(string)) > 0) {
				t.Fatalf("%v is ready before %v", ready, waits)
			}
		}
		storetest.Heads(t, db)
	}
}

// A call carries something of every kind that is due: no backlog of one kind keeps another waiting.
func TestEveryKindHasItsShare(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	client, keys := db.Client(), db.Keys()
	tm := elected(t, db, Options{})
	const backlog = 2000
	leases := many(backlog, func(i int) notify.Message { return notify.Message{Topic: "leased", ID: fmt.Sprint(i)} })
	overdue(t, db, leases...)
	for _, m := range leases { // as if they had been claimed, and their leases had ended
		client.ZRem(t.Context(), keys.Scheduled("leased"), record.Member(m.Topic, m.ID))
		client.ZAdd(t.Context(), keys.Leased(), redis.Z{Score: 1, Member: record.Member(m.Topic, m.ID)})
	}
	overdue(t, db, append(many(backlog, func(int) notify.Message { return notify.Message{Topic: "news", Broadcast: true} }),
		many(backlog, func(int) notify.Message { return notify.Message{Topic: "short", TTL: time.Millisecond} })...)...)
	overdue(t, db, many(backlog, func(int) notify.Message { return notify.Message{Topic: "scheduled"} })...)
	for range 2 {
		tm.carryOnce(t)
	}
	log, err := client.XLen(t.Context(), keys.Log("news")).Result()
	storetest.Must(t, err)
	for what, n := range map[string]int{
		"leases that ended": card(t, db, keys.Ready("leased")), "broadcasts": int(log), "messages": card(t, db, keys.Ready("scheduled")),
		"expired messages": card(t, db, keys.Dead("short")),
	} {
		if n == 0 || n == backlog {
			t.Errorf("%d of %d %s were carried in two calls", n, backlog, what)
		}
	}
}

// What is due in hundreds or thousands of years counts as due never.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	for _, year := range []int{2400, 3000, 6000, 9000, 9999} {
		db := storetest.Open(t)
		tm, due := elected(t, db, Options{}), time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		storetest.Publish(t, db, notify.Message{Topic: "far", Body: []byte("x"), Due: due})
		if next, err := tm.call(t.Context()); err != nil || next < record.Never {
			t.Errorf("due at %v, and next at %d, %v", due, next, err)
		}
	}
}
