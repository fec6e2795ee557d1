package subscribers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// With one hand nothing overtakes what was refused, also where what was taken
// ahead had been given back before.
func TestNamedNotNowKeepsOrder(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	ids := numbers("n", 600)
	refusals := map[string]int{}
	h := &received{}
	listenBy(t, newListener(t, db), func(ctx context.Context, b *subscribers.Broadcast) error {
		switch n := h.size(); {
		case n%100 == 50 && refusals[b.ID] < 2: // at full speed
			refusals[b.ID]++
			return subscribers.NotNow(errBarred, 0)
		case n%200 == 199 && refusals[b.ID] < 2: // so late that what was taken ahead is given back
			refusals[b.ID]++
			onlyInHand(t, db, "n")
			return subscribers.NotNow(errBarred, time.Millisecond)
		}
		return h.handle(ctx, b)
	}, subscribers.ListenOptions{Name: "n", MaxAttempts: 1})
	flood(t, db, []string{topic}, ids...)
	wantIDs(t, h, ids...)
	nothingHeld(t, db, "n")
	for _, b := range h.all {
		if b.Attempt != 1 {
			t.Errorf("%s came in attempt %d", b.ID, b.Attempt)
		}
	}
	if len(refusals) != 9 {
		t.Errorf("refused were %v", refusals)
	}
}

// A NotNow uses up no attempt, and gives none back.
func TestNamedNotNowBetweenFailures(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	var attempts []int
	given := make(chan int, 1)
	listenBy(t, newListener(t, db), func(_ context.Context, b *subscribers.Broadcast) error {
		if attempts = append(attempts, b.Attempt); len(attempts)%2 == 0 {
			return subscribers.NotNow(errBarred, time.Millisecond)
		}
		return errors.New("no")
	}, subscribers.ListenOptions{
		Name: "n", MaxAttempts: 3, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
		OnGivenUp: func(b *subscribers.Broadcast, _ string) { given <- b.Attempt },
	})
	broadcast(t, db, topic, "a")
	if last := storetest.Receive(t, "it is given up", given); last != 3 {
		t.Errorf("it was given up in attempt %d", last)
	}
	storetest.Same(t, "attempts", []int{1, 2, 2, 3, 3}, attempts)
	nothingHeld(t, db, "n")
}

// What one process refuses another has at once; the pause holds up no stop.
func TestNamedNotNowLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	barred := make(chan string, 100)
	o := subscribers.ListenOptions{Name: "n", Concurrency: 4, Lease: time.Minute}
	stop := listenBy(t, newListener(t, db), func(_ context.Context, b *subscribers.Broadcast) error {
		barred <- b.ID
		return subscribers.NotNow(errBarred, time.Hour)
	}, o)
	broadcast(t, db, topic, "first")
	storetest.Receive(t, "it is refused", barred)
	other, _ := listen(t, newListener(t, db), topic, o)
	ids := numbers("n", 20)
	flood(t, db, []string{topic}, ids...)
	wantSet(t, other, append(ids, "first")...)
	stop()
	if n := len(barred); n > 0 {
		t.Errorf("the barred one was called %d times again", n)
	}
	for _, b := range other.all {
		if b.Attempt != 1 {
			t.Errorf("%s came in attempt %d", b.ID, b.Attempt)
		}
	}
	nothingHeld(t, db, "n")
}

// endLeases ends the leases of all that a name has in hand.
func endLeases(t *testing.T, db *notify.Store, name string) {
	t.Helper()
	held := db.KeysOf(topic).Held(name)
	members, err := db.Client().ZRange(t.Context(), held, 0, -1).Result()
	storetest.Must(t, err)
	for _, member := range members {
		storetest.Must(t, db.Client().ZAdd(t.Context(), held, redis.Z{Score: 1, Member: member}).Err())
	}
}

// What is done while Redis is away is acknowledged when it is back: by a listener
// that goes on, and by one that stops, as long as its grace lasts.
func TestNamedSettlesWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{false, true} {
		t.Run(fmt.Sprint("stops ", stops), func(t *testing.T) {
			server := storetest.Server(t)
			db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
			carry(t, db)
			guest := away(t, db, server.URL())
			h := &received{hold: make(chan struct{})}
			l := subscriberstest.Listener(t, guest.store, subscribers.ListenerOptions{Grace: time.Minute})
			stop := listenInto(t, l, topic, h, subscribers.ListenOptions{Name: "n", Concurrency: 2, Lease: time.Hour})
			broadcast(t, db, topic, "a", "b")
			storetest.Eventually(t, "both are begun", func() bool { return h.has(2) })
			guest.leave()
			close(h.hold)
			stopped, start := make(chan struct{}), time.Now()
			if stops {
				go func() {
					stop()
					close(stopped)
				}()
			}
			endLeases(t, db, "n")
			storetest.Eventually(t, "it is longer than calls are tried once the grace is over", func() bool { return time.Since(start) > 2500*time.Millisecond })
			guest.come()
			nothingHeld(t, db, "n")
			if stops {
				storetest.Receive(t, "it stops", stopped)
			}
			got := h.list()
			slices.SortFunc(got, cmp.Compare)
			storetest.Same(t, "handled", []string{"a", "b"}, got)
		})
	}
}

// Broadcasts released to a Redis that has just lost its data are lost: the gap begins before them.
func TestNamedNotNowIsLostWithRedis(t *testing.T) {
	t.Parallel()
	db := storetest.At(t, storetest.Lend(t), "")
	carry(t, db)
	began, refuse := make(chan notify.Position, 100), make(chan struct{})
	gaps := make(chan subscribers.Gap, 100)
	storetest.Run(t, func(ctx context.Context) error {
		return newListener(t, db).Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
			began <- b.Position
			<-refuse
			return subscribers.NotNow(errBarred, 0)
		}, subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning(), OnGap: func(g subscribers.Gap) { gaps <- g }})
	})
	broadcast(t, db, topic, "a")
	at := storetest.Receive(t, "it is handled", began)
	emptied(t, db, nil, false)
	close(refuse)
	if g := storetest.Receive(t, "the gap is reported", gaps); g.After >= at || g.UpTo < at {
		t.Errorf("it got %+v, and gave %v back", g, at)
	}
}

// Redis lost all its data, and the listener stops before it learns that: a gap is reported all the same, and the name is there
// again, so that what is sent from now on is not missed.
func TestNamedIsLostWithRedisAsItStops(t *testing.T) {
	t.Parallel()
	db := storetest.At(t, storetest.Lend(t), "")
	carry(t, db)
	l := newListener(t, db)
	began, release := make(chan notify.Position, 100), make(chan struct{})
	gaps := make(chan subscribers.Gap, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- l.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
			began <- b.Position
			<-release
			return nil
		}, subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning(), OnGap: func(g subscribers.Gap) { gaps <- g }})
	}()
	broadcast(t, db, topic, "a")
	at := storetest.Receive(t, "it is handled", began)
	emptied(t, db, nil, false)
	cancel()
	close(release)
	storetest.Must(t, storetest.Receive(t, "it ends", ended))
	if g := storetest.Receive(t, "the gap is reported", gaps); g.UpTo < at {
		t.Errorf("it got %+v, and had %v", g, at)
	}
	names, err := storetest.Inspector(t, db).Listeners(t.Context())
	if err != nil || len(names) != 1 {
		t.Errorf("%v are registered, %v", names, err)
	}
}
