package subscribers_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// holders returns who holds what of a named listener, "WORKER HELD TOPIC" of each.
func holders(t *testing.T, db *notify.Store, name string) (all []string) {
	t.Helper()
	names, err := storetest.Inspector(t, db).Listeners(t.Context())
	storetest.Must(t, err)
	for _, one := range names {
		for _, o := range one.HeldBy {
			if one.Name == name {
				all = append(all, fmt.Sprintf("%s %d %s", o.Worker, o.Held, o.Topic))
			}
		}
	}
	return all
}

func wantHolders(t *testing.T, db *notify.Store, name string, want ...string) {
	t.Helper()
	var got []string
	if !storetest.Poll(5*time.Millisecond, storetest.Deadline, func() bool {
		got = holders(t, db, name)
		return slices.Equal(got, want)
	}) {
		t.Fatalf("held by %q, want %q", got, want)
	}
}

// holding listens under the name n as a worker, and holds so many at a time until it may go on.
func holding(t *testing.T, db *notify.Store, worker, pattern string, lease time.Duration, many int) (h *received, stop func()) {
	t.Helper()
	h = &received{hold: make(chan struct{})}
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Name: worker})
	return h, listenInto(t, l, pattern, h, subscribers.ListenOptions{Name: "n", Lease: lease, Concurrency: many})
}

// Of several processes of a name each is known by what it holds, while it holds that: extended leases, too.
func TestWhoHolds(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			t.Parallel()
			db := storetest.Sharded(t, shards)
			carry(t, db)
			a, _ := holding(t, db, "w-a", "t.>", time.Minute/2, 1) // longer than a machine stands still
			broadcast(t, db, "t.1", "first")
			wantHolders(t, db, "n", "w-a 1 t.1")
			at := sentTo(t, db)[0].at.Time()
			storetest.Eventually(t, fmt.Sprint("it holds one sent at ", at), func() bool { // also after a lease was lost
				names, err := storetest.Inspector(t, db).Listeners(t.Context())
				return err == nil && len(names) == 1 && len(names[0].HeldBy) == 1 && names[0].HeldBy[0].Sent.Equal(at)
			})
			b, _ := holding(t, db, "w-b", "t.>", time.Minute/2, 1)
			broadcast(t, db, "t.2", "second")
			both := []string{"w-a 1 t.1", "w-b 1 t.2"} // also after what one took ahead was given back
			wantHolders(t, db, "n", both...)
			before := leaseEnds(t, db)
			storetest.Eventually(t, "the leases are extended", func() bool {
				now := leaseEnds(t, db)
				return len(now) == len(before) && !slices.ContainsFunc(now, func(end float64) bool { return slices.Contains(before, end) })
			})
			wantHolders(t, db, "n", both...)
			close(a.hold)
			wantIDs(t, a, "first")
			wantHolders(t, db, "n", "w-b 1 t.2")
			close(b.hold)
			wantIDs(t, b, "second")
			wantHolders(t, db, "n")
			storetest.Eventually(t, "nothing is left", func() bool {
				for _, keys := range db.KeysOfAll() {
					if n, err := db.Client().Exists(t.Context(), keys.Held("n"), keys.Owners("n")).Result(); err != nil || n > 0 {
						return false
					}
				}
				return true
			})
		})
	}
}

// leaseEnds returns when the leases of the name n end, in all shards.
func leaseEnds(t *testing.T, db *notify.Store) (ends []float64) {
	t.Helper()
	for _, keys := range db.KeysOfAll() {
		all, err := db.Client().ZRangeWithScores(t.Context(), keys.Held("n"), 0, -1).Result()
		storetest.Must(t, err)
		for _, one := range all {
			ends = append(ends, one.Score)
		}
	}
	return ends
}

// Who took over what a process lost, without a name, is not guessed; and what others wrote there stops no listener.
func TestWhoHoldsIsNotGuessed(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	keys, client := db.KeysOf(topic), db.Client()
	h, stop := holding(t, db, "w-a", topic, time.Hour, 2)
	broadcast(t, db, topic, "a", "b")
	wantHolders(t, db, "n", "w-a 2 "+topic)
	if left := client.PTTL(t.Context(), keys.Owners("n")).Val(); left < 50*time.Minute || left > time.Hour {
		t.Errorf("who holds them is forgotten in %v", left)
	}
	member := client.ZRange(t.Context(), keys.Held("n"), 0, 0).Val()[0]
	far := time.Now().Add(2 * time.Hour).UnixMilli()
	storetest.Must(t, client.Do(t.Context(), "ZADD", keys.Held("n"), far, member).Err())
	wantHolders(t, db, "n", "w-a 1 "+topic)
	for _, foreign := range []string{"x", fmt.Sprint(far), fmt.Sprintf("%d a b", far), fmt.Sprintf("%d \x1b[31m", far)} {
		storetest.Must(t, client.HSet(t.Context(), keys.Owners("n"), member, foreign).Err())
		if got := holders(t, db, "n"); !slices.Equal(got, []string{"w-a 1 " + topic}) {
			t.Errorf("held by %q", got)
		}
	}
	storetest.Must(t, client.Del(t.Context(), keys.Owners("n")).Err())
	storetest.Must(t, client.Set(t.Context(), keys.Owners("n"), "foreign", 0).Err())
	wantHolders(t, db, "n")
	broadcast(t, db, topic, "c")
	close(h.hold)
	wantSet(t, h, "a", "b", "c")
	stop()
	storetest.Must(t, storetest.Inspector(t, db).RemoveListener(t.Context(), "n"))
	if n := client.Exists(t.Context(), keys.Owners("n")).Val(); n > 0 {
		t.Error("who holds what is left of a name that was removed")
	}
}

// registered registers the name n, and returns what takes for it, with a lease of a minute by default.
func registered(t *testing.T, db *notify.Store) (take func(store.Take) store.TakeResult) {
	t.Helper()
	shard := db.Of(topic)
	r, _, err := shard.Register(t.Context(), "n", store.Registration{Pattern: topic, From: "beginning"})
	if err == nil && shard != db.Home() { // where names are looked up
		_, _, err = db.Home().Register(t.Context(), "n", r)
	}
	storetest.Must(t, err)
	return func(what store.Take) store.TakeResult {
		t.Helper()
		what.Name, what.Registration, what.Lease = "n", r.Text, cmp.Or(what.Lease, time.Minute)
		got, err := shard.Take(t.Context(), what)
		storetest.Must(t, err)
		return got
	}
}

// What was released while no process has a hand free is told again each second, and not whenever the carrier looks.
func TestReleasedIsToldEachSecond(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard := db.Of(topic)
	take := registered(t, db)
	stop := carry(t, db)
	broadcast(t, db, topic, "a", "b")
	stop()
	got := take(store.Take{Max: 2, Topics: []string{topic}})
	if len(got.Broadcasts) != 2 {
		t.Fatalf("took %+v", got)
	}
	take(store.Take{Back: []store.Unhandled{{Lease: store.Lease{Member: store.LeasedMember(topic, got.Broadcasts[1].Position), Receipt: got.Until}}}})
	rings, carries := storetest.Subscribe(t, db, shard.Keys().Name("n")), byHand(t, db)
	began := redisNow(t, db)
	for range 10 {
		carries()
		take(store.Take{})
	}
	seconds := int(redisNow(t, db).Sub(began) / time.Second)
	storetest.Must(t, storetest.ErrOf(storetest.Tell(t.Context(), db, shard.Keys().Name("n"), "end")))
	n := 0
	for m := range rings.Channel() {
		if m.Payload == "end" {
			break
		}
		n++
	}
	if n > 1+seconds {
		t.Errorf("rung %d times in %d s", n, seconds)
	}
}

// A process of a version that tells no name takes over what another one had, and nothing is left of that.
func TestHoldersOfAnotherVersion(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	shard, keys, takes := db.Of(topic), db.KeysOf(topic), registered(t, db)
	stop := carry(t, db)
	broadcast(t, db, topic, "a")
	stop()
	take := func(worker string, lease time.Duration, acked ...string) store.TakeResult {
		t.Helper()
		return takes(store.Take{Worker: worker, Lease: lease, Max: 1, Topics: []string{topic}, Acked: acked})
	}
	named := take("w-a", record.MinLease)
	if len(named.Broadcasts) != 1 {
		t.Fatalf("got %+v", named)
	}
	member := store.LeasedMember(topic, named.Broadcasts[0].Position)
	var other store.TakeResult
	storetest.Eventually(t, "the lease is over", func() bool {
		other = take("", time.Minute)
		return len(other.Broadcasts) == 1
	})
	wantHolders(t, db, "n")
	if _, lost, err := shard.Hold(t.Context(), "n", "w-a", []store.Lease{{Member: member, Receipt: named.Until}}, time.Minute); err != nil || len(lost) != 1 {
		t.Errorf("lost %v, %v", lost, err)
	}
	wantHolders(t, db, "n")
	if _, lost, err := shard.Hold(t.Context(), "n", "w-b", []store.Lease{{Member: member, Receipt: other.Until}}, time.Minute); err != nil || len(lost) != 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	wantHolders(t, db, "n", "w-b 1 "+topic)
	take("", time.Minute, member)
	if n := db.Client().Exists(t.Context(), keys.Held("n"), keys.Owners("n")).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
