package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// carriers returns a store of some shards, and the election that "me" won in one of them.
func carriers(t *testing.T, shards int) (*notify.Store, store.Shard, store.Election) {
	t.Helper()
	db := storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: "test-" + notify.NewID(), Shards: shards})
	shard := db.Of("t")
	won := elect(t, shard, "me", 3)
	if !won.Won || won.Epoch != 1 {
		t.Fatalf("got %+v", won)
	}
	return db, shard, won
}

func elect(t *testing.T, shard store.Shard, name string, carries int) store.Election {
	t.Helper()
	e, err := shard.Elect(t.Context(), name, time.Minute, carries)
	storetest.Must(t, err)
	return e
}

// beat makes a call of the carrier with a beat, and returns the standby that it answers.
func beat(t *testing.T, shard store.Shard, e store.Election) *store.Standby {
	t.Helper()
	m, err := shard.Carry(t.Context(), store.Carry{Token: e.Token, Epoch: e.Epoch, Lease: time.Minute, Batch: 10, Ready: "0", Beat: true})
	storetest.Must(t, err)
	return m.Standby
}

// A beat answers the standby that carries the fewest shards, while it said so lately.
func TestBeatAnswersAStandby(t *testing.T) {
	t.Parallel()
	db, shard, won := carriers(t, 4)
	keys := db.KeysOf("t")
	now := func() time.Time {
		t.Helper()
		now, err := db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		return now
	}
	carries := make(map[string]int) // of those that stand by, who say so until a beat comes lately enough behind
	want := func(what string, want *store.Standby) {
		t.Helper()
		var got *store.Standby
		storetest.Eventually(t, "a beat within 2 s of all that stand by", func() bool {
			began := now()
			for name, n := range carries {
				elect(t, shard, name, n)
			}
			got = beat(t, shard, won)
			return now().Sub(began) < 2*time.Second
		})
		storetest.Same(t, what, want, got)
	}
	want("nobody stands by", nil)
	carries["c"], carries["a"], carries["b"] = 1, 2, 1
	want("all said so", &store.Standby{Name: "b", Carries: 1})
	carries["b"] = 3
	want("one has more", &store.Standby{Name: "c", Carries: 1})
	delete(carries, "c")
	storetest.Must(t, shard.Withdraw(t.Context(), "c"))
	want("one is gone", &store.Standby{Name: "a", Carries: 2})
	clear(carries)
	if _, err := shard.Carry(t.Context(), store.Carry{Token: won.Token, Epoch: won.Epoch, Lease: time.Minute, Batch: 10, Ready: "0"}); err != nil {
		t.Errorf("without a beat: %v", err)
	}
	for name, note := range map[string]string{"a": "2 %d", "b": "-3 %d"} {
		storetest.Must(t, db.Client().HSet(t.Context(), keys.Standbys(), name, fmt.Sprintf(note, now().UnixMilli()-2_100)).Err())
	}
	want("that was long ago, or is foreign", nil)
}

// One that gives up several shards names a standby for each, so that the others have about as many then.
func TestResignNamesAStandby(t *testing.T) {
	t.Parallel()
	db, shard, won := carriers(t, 4)
	named := make(chan string, 1)
	subscribed := make(chan struct{}, 1)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			switch e.Kind {
			case reach.Subscribed:
				subscribed <- struct{}{}
			case reach.Received:
				named <- e.Payload
			}
		}, shard.VacantChannel())
		return nil
	})
	storetest.Receive(t, "it listens", subscribed)
	resign := func(to string, before int) string {
		t.Helper()
		if was, err := shard.Resign(t.Context(), won.Token, to, before); err != nil || !was {
			t.Fatalf("resigned %v, %v", was, err)
		}
		got := storetest.Receive(t, "it is told", named)
		if won = elect(t, shard, "me", 0); !won.Won {
			t.Fatalf("got %+v", won)
		}
		return got
	}
	storetest.Is(t, "named without a standby", resign("", 0), "")
	for before, want := range []string{"c", "c", "b", "c", "b"} { // of as many the first by name
		elect(t, shard, "b", 3) // each time: who has not stood for some seconds is not named
		elect(t, shard, "c", 1)
		storetest.Is(t, fmt.Sprintf("named for shard %d", before), resign("", before), want)
	}
	storetest.Is(t, "named in place of another", resign("b", 0), "b")
	if got := elect(t, shard, "b", 3); got.Won {
		t.Errorf("got %+v", got)
	}
	if was, err := shard.Resign(t.Context(), "1 2 3 x", "b", 0); was || err != nil {
		t.Errorf("another resigned: %v, %v", was, err)
	}
}

// In a store of one shard nobody notes who stands by, and nobody is named.
func TestOneShardHasNoStandbys(t *testing.T) {
	t.Parallel()
	db, shard, won := carriers(t, 1)
	elect(t, shard, "b", 0)
	if n, err := db.Client().Exists(t.Context(), db.Keys().Standbys()).Result(); n != 0 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	storetest.Is(t, "a beat answers", beat(t, shard, won), nil)
	if was, err := shard.Resign(t.Context(), won.Token, "", 0); err != nil || !was {
		t.Errorf("resigned %v, %v", was, err)
	}
}
