package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// bars is what a shard has of topics in which a death bars its key.
type bars struct {
	*keyed
	sweep store.Sweep
}

// openBars opens topics in which a death bars its key.
func openBars(t *testing.T, topics ...string) bars {
	t.Helper()
	storetest.OneShard(t, "the topics share the steps of one housekeeping")
	k := openKeyed(t, storetest.Open(t), topics[0], 0)
	for _, topic := range topics {
		_, err := k.Shard.Set(t.Context(), topic, store.SettingsChange{OnDead: new("stop")}, false)
		k.must(err)
	}
	return bars{k, store.Sweep{KeepDeadCount: 100_000}}
}

// die lets n messages of a topic die, later than all before: each bars a key of its own, or has none.
func (b bars) die(topic string, n int, bar bool) {
	b.Helper()
	before := b.dead(topic)
	all := make([]notify.Message, n)
	for i := range all {
		all[i] = notify.Message{Topic: topic, TTL: time.Millisecond}
		if bar {
			all[i].Key = notify.NewID()
		}
	}
	for some := range slices.Chunk(all, 1000) {
		storetest.Publish(b.T, b.Store, some...)
	}
	b.Play("pass 2ms")
	c := store.Carry{Token: b.Token(), Lease: time.Minute, Batch: 10_000, KeepCount: 1, KeepAge: time.Hour, Ready: "0"}
	_, err := b.Shard.Carry(b.Context(), c)
	b.must(err)
	if got := b.dead(topic); got != before+int64(n) {
		b.Fatalf("%d of %s are dead, want %d more than %d", got, topic, n, before)
	}
	b.Play("pass 2ms")
}

func (b bars) dead(topic string) int64 {
	b.Helper()
	n, err := b.Store.Client().ZCard(b.Context(), b.Store.KeysOf(topic).Dead(topic)).Result()
	b.must(err)
	return n
}

// step does a step of the housekeeping, and returns whether there is more to do soon.
func (b *bars) step() bool {
	b.Helper()
	swept := b.Sweep(b.sweep)
	b.sweep.Rank, b.sweep.Seat = swept.Rank, swept.Seat
	return swept.Soon
}

// However many dead letters of a topic bar their keys, the others go, behind them and of other topics, once they are too old or too many.
func TestBarsKeepNoOtherDeadLetter(t *testing.T) {
	t.Parallel()
	const barring = 1_100
	for name, asks := range map[string]func(*store.Sweep){
		"too old":  func(w *store.Sweep) { w.KeepDeadAge = time.Millisecond },
		"too many": func(w *store.Sweep) { w.KeepDeadCount = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBars(t, "ledger", "mail")
			b.die("ledger", barring, true)
			b.die("mail", 1, true)
			b.die("mail", 5, false)
			b.die("ledger", 5, false)
			asks(&b.sweep)
			storetest.Eventually(t, "the others go", func() bool {
				b.step()
				return b.dead("mail") == 1 && b.dead("ledger") == barring
			})
			if b.step() {
				t.Error("there is more to do soon, though only those that bar are left")
			}
		})
	}
}

// Of many topics whose oldest dead letter bars its key none hides what is too old of the others, and the housekeeping comes to rest.
func TestBarsOfManyTopics(t *testing.T) {
	t.Parallel()
	topics := make([]string, 60)
	for i := range topics {
		topics[i] = fmt.Sprint("ledger-", i)
	}
	b := openBars(t, append(topics, "mail")...)
	for _, topic := range topics {
		b.die(topic, 1, true)
	}
	b.die("mail", 5, false)
	b.sweep.KeepDeadAge = time.Millisecond
	storetest.Eventually(t, "the others go", func() bool {
		b.step()
		return b.dead("mail") == 0
	})
	if b.step() {
		t.Error("there is more to do soon, though only those that bar are left")
	}
	for _, topic := range topics {
		if n := b.dead(topic); n != 1 {
			t.Errorf("%d of %s are left", n, topic)
		}
	}
}

// No death removes dead letters that bar their keys since the same call, however few are kept.
func TestBarsOfOneCallAreKept(t *testing.T) {
	t.Parallel()
	const n = 40
	b := openBars(t, "ledger")
	b.sweep.KeepDeadCount = 2
	b.step() // deaths keep as many from now on
	b.die("ledger", n, true)
	storetest.Is(t, "keys are barred", len(b.read().seats), n)
}
