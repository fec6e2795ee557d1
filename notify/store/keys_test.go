package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// listed returns keys as NAME:BLOCKED.
func listed(keys []store.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = fmt.Sprint(k.Key, ":", k.Blocked)
	}
	return strings.Join(all, " ")
}

// Keys are listed by how many messages are blocked, or by the oldest of these, with who keeps them back.
func TestListKeys(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	list := func(order store.KeyOrder, limit int) ([]store.Key, int64) {
		t.Helper()
		keys, all, err := store.ListKeys(t.Context(), db, k.Topic, order, limit)
		k.must(err)
		return keys, all
	}
	if keys, all := list(store.MostBlocked, 10); len(keys) != 0 || all != 0 {
		t.Errorf("of an empty topic %v of %d", keys, all)
	}
	// Key 0 has no blocked message, 1 has one, and so on, the later the more; a prefix of another key's name is a key of its own.
	for key := range 4 {
		for i := range key + 1 {
			storetest.Publish(t, db, notify.Message{Topic: k.Topic, ID: fmt.Sprint(key, "-", i), Key: strings.Repeat("k", key+1)})
		}
	}
	if keys, all := list(store.MostBlocked, 2); listed(keys) != "kkkk:3 kkk:2" || all != 3 {
		t.Errorf("the most blocked are %v of %d", listed(keys), all)
	}
	if keys, all := list(store.OldestBlocked, 2); listed(keys) != "kk:1 kkk:2" || all != 3 {
		t.Errorf("the oldest are %v of %d", listed(keys), all)
	}
	claimed, err := k.Shard.Claim(t.Context(), store.Claim{Topic: k.Topic, Max: 4, Lease: time.Hour, Name: "desk-1"})
	k.must(err)
	if len(claimed.Messages) != 4 {
		t.Fatalf("%d are claimed", len(claimed.Messages))
	}
	put := claimed.Messages[slices.IndexFunc(claimed.Messages, func(m store.ClaimedMessage) bool { return m.Member == "ledger:2-0" })]
	_, err = k.Shard.Nack(t.Context(), k.Topic, store.Nack{Lease: put.Lease, Delay: time.Hour})
	k.must(err)
	keys, _ := list(store.MostBlocked, 10)
	seats := make(map[string]store.Seat)
	for _, key := range keys {
		if len(key.Seats) != 1 || time.Since(key.Oldest) > time.Hour || time.Since(key.Oldest) < -time.Minute {
			t.Errorf("a key is %+v", key)
			continue
		}
		seats[key.Key] = key.Seats[0]
	}
	if s := seats["kkkk"]; s.ID != "3-0" || s.State != record.Leased || s.By != "desk-1" || time.Since(s.Since) > time.Hour {
		t.Errorf("a leased one is %+v", s)
	}
	storetest.Is(t, "one that was put off is", seats["kkk"], (store.Seat{ID: "2-0", State: record.Scheduled}))
}

// The keys of which most messages are blocked are found among more than a call counts.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	const n = 1_001
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	var all []notify.Message
	for i := range n {
		for j := range 2 + i%7 {
			all = append(all, notify.Message{Topic: k.Topic, ID: fmt.Sprint(i, "-", j), Key: fmt.Sprint(i)})
		}
	}
	for some := range slices.Chunk(all, 1000) {
		storetest.Publish(t, db, some...)
	}
	keys, total, err := store.ListKeys(t.Context(), db, k.Topic, store.MostBlocked, store.MaxKeys)
	if err != nil || total != n || len(keys) != store.MaxKeys {
		t.Fatalf("%d of %d, %v", len(keys), total, err)
	}
	left := map[int64]int{7: n / 7, 6: n / 7, 5: n / 7, 4: store.MaxKeys - 3*(n/7)}
	for i, key := range keys {
		if left[key.Blocked]--; left[key.Blocked] < 0 || i > 0 && key.Blocked > keys[i-1].Blocked || len(key.Seats) != 1 {
			t.Fatalf("at %d is %+v, behind %+v", i, key, keys[max(i-1, 0)])
		}
	}
}

// A dead letter that bars its key is listed, and no more seats than there may be.
func TestListKeysOfManySeats(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	_, err := k.Shard.Set(t.Context(), k.Topic, store.SettingsChange{KeyConcurrency: new(store.MaxSeats + 5), OnDead: new("stop")}, false)
	k.must(err)
	for i := range store.MaxSeats + 10 {
		storetest.Publish(t, db, notify.Message{Topic: k.Topic, ID: fmt.Sprintf("m-%02d", i), Key: "k"})
	}
	keys, _, err := store.ListKeys(t.Context(), db, k.Topic, store.OldestBlocked, 1)
	if err != nil || len(keys) != 1 || keys[0].Blocked != 5 || len(keys[0].Seats) != store.MaxSeats || keys[0].Seats[0].State != record.Ready {
		t.Errorf("%+v, %v", keys, err)
	}
	claimed, err := k.Shard.Claim(t.Context(), store.Claim{Topic: k.Topic, Max: 1, Lease: time.Hour})
	k.must(err)
	one := claimed.Messages[0]
	_, err = k.Shard.Nack(t.Context(), k.Topic, store.Nack{Lease: one.Lease, Bury: true})
	k.must(err)
	keys, _, err = store.ListKeys(t.Context(), db, k.Topic, store.OldestBlocked, 1)
	if err != nil || len(keys) != 1 || len(keys[0].Seats) == 0 || keys[0].Seats[0] != (store.Seat{ID: "m-00", State: record.Dead}) {
		t.Errorf("%+v, %v", keys, err)
	}
}

func TestWrongKeyLists(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	for want, list := range map[string]func() error{
		"topic": func() error { _, _, err := store.ListKeys(t.Context(), db, "a b", store.MostBlocked, 1); return err },
		"limit": func() error { _, _, err := store.ListKeys(t.Context(), db, "a", store.MostBlocked, 501); return err },
		"sort":  func() error { _, _, err := store.ListKeys(t.Context(), db, "a", "newest", 1); return err },
	} {
		if err := list(); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The housekeeping keeps dead letters that bar a key, and finds the others behind many of them.
func TestDeadLettersThatBarAreKept(t *testing.T) {
	t.Parallel()
	const barring, others = 300, 3
	k := openKeyed(t, storetest.Open(t), "ledger", 0)
	_, err := k.Shard.Set(t.Context(), k.Topic, store.SettingsChange{OnDead: new("stop")}, false)
	k.must(err)
	die := func(n int, key func(int) string) {
		var all []notify.Message
		for i := range n {
			all = append(all, notify.Message{Topic: k.Topic, Key: key(i)})
		}
		storetest.Publish(t, k.Store, all...)
		for range n {
			_, err := k.Shard.Nack(t.Context(), k.Topic, store.Nack{Lease: k.take(t.Context()).Lease, Bury: true})
			k.must(err)
		}
		k.Play("pass 1ms") // what dies next is younger
	}
	die(barring, func(i int) string { return fmt.Sprint("acct-", i) })
	die(others, func(int) string { return "" })
	k.Sweep(store.Sweep{KeepDeadCount: 1})
	storetest.Is(t, "dead letters are kept", len(k.read().dead), barring)
	die(others, func(int) string { return "" })
	k.Play("pass 2ms")
	k.Sweep(store.Sweep{KeepDeadAge: time.Millisecond})
	storetest.Is(t, "dead letters are kept once they are old", len(k.read().dead), barring)
}

// The first message with a key that a shard has may be a successor that a carry publishes: it has a seat, also if that one makes it ready.
func TestFirstKeyIsOfASuccessor(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== its lease ends
	publish job-1 attempts=1 ttl=24h
	claim 1 lease=1ms = job-1
	publish job-1 key=k then=after = leased
	publish other delay=1ms
	pass 2ms
	carry = dead:job-1
	publish job-2 key=k
	is job-1=ready other=ready job-2=blocked
== it is past its age
	publish job-1 attempts=1 ttl=24h
	claim 1 = job-1
	publish job-1 key=k then=after = leased
	defer job-1 delay=1h
	expire job-1
	publish other delay=1ms
	pass 2ms
	carry = dead:job-1
	publish job-2 key=k
	is job-1=ready other=ready job-2=blocked
	`)
}
