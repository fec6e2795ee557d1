package store_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// picky is a message of a key that is dropped if another one is under way.
func (k *keyed) picky(id string, delay time.Duration) notify.Message {
	return notify.Message{Topic: k.topic, ID: id, Key: "k", IfBusy: "drop", Delay: delay}
}

// passes waits until Redis's clock has gone on by a time.
func (k *keyed) passes(d time.Duration) {
	k.t.Helper()
	now := func() time.Time {
		at, err := k.db.Client().Time(k.t.Context()).Result()
		k.must(err)
		return at
	}
	end := now().Add(d)
	storetest.Eventually(k.t, "redis's clock goes on", func() bool { return now().After(end) })
}

// carries moves what had a delay of a millisecond, rounded up.
func (k *keyed) carries() {
	k.t.Helper()
	k.passes(2 * time.Millisecond)
	_, err := k.shard.Carry(k.t.Context(), store.Carry{Token: k.token, Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0"})
	k.must(err)
}

// is checks the states of messages, by id; 0: it is gone.
func (k *keyed) is(what string, want map[string]record.State) {
	k.t.Helper()
	for id, state := range want {
		all, err := k.shard.Inspect(k.t.Context(), k.topic, []string{k.topic + ":" + id})
		k.must(err)
		if all[0].State != state {
			k.t.Errorf("%s: %s is %v, want %v", what, id, all[0].State, state)
		}
	}
	for _, wrong := range k.read().check(1, 1) {
		k.t.Errorf("%s: %s", what, wrong)
	}
}

// dropped checks how many messages were dropped.
func (k *keyed) dropped(want int64) {
	k.t.Helper()
	counts, err := k.shard.Topics(k.t.Context(), []string{k.topic})
	k.must(err)
	if counts[0].Dropped != want {
		k.t.Errorf("%d were dropped, want %d", counts[0].Dropped, want)
	}
}

// take claims one message.
func (k *keyed) take(ctx context.Context) store.ClaimedMessage {
	k.t.Helper()
	claimed, err := k.shard.Claim(ctx, store.Claim{Topic: k.topic, Max: 1, Lease: time.Hour})
	k.must(err)
	if len(claimed.Messages) != 1 {
		k.t.Fatalf("claimed %+v", claimed)
	}
	return claimed.Messages[0]
}

// exports exports all messages, by id.
func (k *keyed) exports() map[string]notify.Message {
	k.t.Helper()
	var lines bytes.Buffer
	_, err := storetest.Inspector(k.t, k.db).Export(k.t.Context(), &lines, nil)
	k.must(err)
	all := make(map[string]notify.Message)
	for line := range bytes.Lines(lines.Bytes()) {
		m, err := notify.ParseExported(bytes.TrimSpace(line))
		k.must(err)
		all[m.ID] = m
	}
	return all
}

// moves has a picky message, which had its seat, come to another store by an export, behind one that waited for it: now it waits for that.
func (k *keyed) moves(begin func()) {
	k.t.Helper()
	storetest.Publish(k.t, k.db, k.picky("a", 0))
	begin()
	storetest.Publish(k.t, k.db, notify.Message{Topic: k.topic, ID: "b", Key: "k"})
	k.is("before", map[string]record.State{"b": record.Blocked})
	all := k.exports()
	other := openKeyed(k.t, storetest.Open(k.t), k.topic, 0)
	storetest.Publish(k.t, other.db, all["b"])
	storetest.Publish(k.t, other.db, all["a"])
	if _, err := other.publisher.RescheduleIn(k.t.Context(), k.topic, "a", 0); err != nil {
		k.t.Errorf("once it is due: %v", err)
	}
	other.is("imported", map[string]record.State{"a": record.Blocked, "b": record.Ready})
	other.dropped(0)
}

// What is to be dropped if its key is busy is judged once, when it is due first.
func TestIfBusy(t *testing.T) {
	t.Parallel()
	publish := func(k *keyed, m notify.Message) notify.Publication {
		k.t.Helper()
		p, err := k.publisher.Publish(t.Context(), m)
		k.must(err)
		return p
	}
	for name, play := range map[string]func(k *keyed){
		"at once": func(k *keyed) {
			if p := publish(k, k.picky("a", 0)); p.Outcome != notify.Created || p.State != notify.Ready {
				t.Errorf("the first is %+v", p)
			}
			p := publish(k, k.picky("b", 0))
			if p.Outcome != store.OutcomeDropped || p.State != notify.Done {
				t.Errorf("the second is %+v", p)
			}
			k.is("published", map[string]record.State{"a": record.Ready, "b": 0})
			k.dropped(1)
		},
		"when it is due": func(k *keyed) {
			for _, id := range []string{"a", "b", "c"} {
				if p := publish(k, k.picky(id, time.Millisecond)); p.State != notify.Scheduled {
					t.Errorf("%s is %+v", id, p)
				}
			}
			k.carries() // all of them together: the first has the seat
			k.is("carried", map[string]record.State{"a": record.Ready, "b": 0, "c": 0})
			k.dropped(2)
		},
		"beside one that waits": func(k *keyed) {
			storetest.Publish(t, k.db, notify.Message{Topic: k.topic, ID: "a", Key: "k"}, notify.Message{Topic: k.topic, ID: "b", Key: "k"})
			publish(k, k.picky("c", time.Millisecond))
			k.carries()
			k.is("carried", map[string]record.State{"a": record.Ready, "b": record.Blocked, "c": 0})
		},
		"not of another attempt": func(k *keyed) {
			_, err := k.shard.Set(t.Context(), k.topic, store.SettingsChange{OnRetry: new("pass")}, false)
			k.must(err)
			publish(k, k.picky("a", time.Millisecond))
			k.carries()
			a := k.take(t.Context())
			storetest.Publish(t, k.db, notify.Message{Topic: k.topic, ID: "b", Key: "k"}) // first: at once it waits behind what is overdue
			_, err = k.shard.Nack(t.Context(), k.topic, store.Nack{Lease: a.Lease, Delay: time.Millisecond})
			k.must(err)
			k.carries()
			k.is("put off", map[string]record.State{"a": record.Blocked, "b": record.Ready})
			k.dropped(0)
		},
		"not once it was requeued": func(k *keyed) {
			m := k.picky("a", time.Millisecond)
			m.TTL = time.Millisecond
			publish(k, m)
			k.passes(2 * time.Millisecond) // nobody carries it before it expires
			k.carries()
			k.is("expired", map[string]record.State{"a": record.Dead})
			storetest.Publish(t, k.db, notify.Message{Topic: k.topic, ID: "b", Key: "k"})
			_, err := k.shard.Requeue(t.Context(), k.topic, store.Letters{Members: []string{k.topic + ":a"}})
			k.must(err)
			k.is("requeued", map[string]record.State{"a": record.Blocked, "b": record.Ready})
		},
		"an id that stays taken": func(k *keyed) {
			publish(k, k.picky("a", 0))
			m := k.picky("b", 0)
			m.UniqueFor = time.Hour
			publish(k, m)
			k.is("dropped", map[string]record.State{"a": record.Ready, "b": record.Done})
		},
		"a successor": func(k *keyed) {
			publish(k, k.picky("a", 0))
			a := k.take(t.Context())
			m := k.picky("a", 0)
			m.Then = notify.After
			publish(k, m)
			lost, err := k.shard.Ack(t.Context(), k.topic, []store.Lease{a.Lease})
			k.must(err)
			if len(lost) > 0 {
				t.Error("the lease is lost")
			}
			k.is("followed", map[string]record.State{"a": record.Ready})
		},
		"replaced by one that waits": func(k *keyed) {
			publish(k, k.picky("a", 0))
			publish(k, k.picky("b", time.Hour))
			p := publish(k, notify.Message{Topic: k.topic, ID: "b", Key: "k", IfExists: notify.Replace})
			if p.Outcome != notify.Replaced || p.State != notify.Blocked {
				t.Errorf("got %+v", p)
			}
			k.is("replaced", map[string]record.State{"a": record.Ready, "b": record.Blocked})
		},
		"exported": func(k *keyed) {
			publish(k, k.picky("b", time.Hour))
			m := k.exports()["b"]
			other := openKeyed(t, storetest.Open(t), k.topic, 0)
			publish(other, m)
			if got, want := other.read().keys["b"], "k ?"; got != want {
				t.Errorf("the imported one is noted as %q, want %q", got, want)
			}
		},
		"exported once it was ready": func(k *keyed) { k.moves(func() {}) },
		"exported while it was leased": func(k *keyed) {
			k.moves(func() { k.take(t.Context()) })
		},
		"exported before another attempt": func(k *keyed) {
			k.moves(func() {
				_, err := k.shard.Nack(t.Context(), k.topic, store.Nack{Lease: k.take(t.Context()).Lease, Delay: time.Hour})
				k.must(err)
			})
		},
		"exported while its attempt was put off": func(k *keyed) {
			k.moves(func() {
				_, err := k.shard.Nack(t.Context(), k.topic, store.Nack{Lease: k.take(t.Context()).Lease, Delay: time.Hour, Keep: true})
				k.must(err)
			})
		},
		"exported while it followed": func(k *keyed) {
			storetest.Publish(t, k.db, notify.Message{Topic: k.topic, ID: "a"})
			k.take(t.Context())
			m := k.picky("a", 0)
			m.Then = notify.After
			publish(k, m)
			if next := k.exports()["a"].Restore.Next; next == nil || next.IfBusy != "drop" {
				t.Errorf("it follows as %+v", next)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(openKeyed(t, storetest.Open(t), "ledger", 0))
		})
	}
}

func TestWrongIfBusy(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	publisher := storetest.Publisher(t, db)
	for name, m := range map[string]notify.Message{
		"without a key": {Topic: "ledger", IfBusy: "drop"},
		"another word":  {Topic: "ledger", Key: "k", IfBusy: "refuse"},
		"a broadcast":   {Topic: "ledger", IfBusy: "drop", Broadcast: true},
	} {
		if _, err := publisher.Publish(t.Context(), m); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "if_busy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.Empty(t, db)
}
