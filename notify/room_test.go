package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// small returns a store in a Redis of 40 MB, of which 50 % are for messages, and a
// publisher to it.
func small(t *testing.T) (client, *notify.Store) {
	t.Helper()
	server := storetest.Server(t, "--maxmemory", "40mb", "--maxmemory-policy", "noeviction")
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: server.URL(), MemoryShare: 50}))
	return clientOf(t, db), db
}

// large returns a message of 100 KB.
func large(id string, due time.Time) notify.Message {
	m := message(id, due)
	m.Body = bytes.Repeat([]byte("x"), 100_000)
	return m
}

// memory returns how full the Redis of a store is.
func memory(t *testing.T, db *notify.Store) reach.Memory {
	t.Helper()
	m, err := db.Home().Memory(t.Context())
	storetest.Must(t, err)
	return m
}

// fillUp publishes until a publish is refused, and returns the ids.
func fillUp(t *testing.T, pub client, due time.Time) (ids []string) {
	t.Helper()
	for i := range 1000 {
		id := fmt.Sprint("fill-", i)
		_, err := pub.Publish(t.Context(), large(id, due))
		if errors.Is(err, notify.ErrFull) {
			return ids
		}
		storetest.Must(t, err)
		ids = append(ids, id)
	}
	t.Fatal("it never was full")
	return nil
}

// wantFull checks that an error is that of the share, and not of Redis itself.
func wantFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, notify.ErrFull) || !strings.Contains(err.Error(), "50% are for messages") || notify.Retryable(err) {
		t.Errorf("got %v, want an ErrFull that tells of the share", err)
	}
}

// Above the share every way to publish is refused, as a whole, and everything else
// works. Publishes work again once memory is free.
func TestFull(t *testing.T) {
	t.Parallel()
	pub, db := small(t)
	broadcast := announcement("sent", future)
	for _, m := range []notify.Message{message("acked", past), message("buried", past), message("released", past), message("cancelled", future), message("moved", future), broadcast} {
		publish(t, pub, m)
	}
	ids := fillUp(t, pub, future)
	if m := memory(t, db); m.Max != 40<<20 || m.Limit != 20<<20 || m.Used < m.Limit-m.Max/20 || m.Used > m.Limit+m.Max/4 { // the call's buffer counted, too
		t.Errorf("it was full at %+v", m)
	}

	unchanged(t, db, func() {
		many := make([]notify.Message, 1200) // three calls
		for i := range many {
			many[i] = message(fmt.Sprint(i), []time.Time{past, future}[i%2])
			many[i].Broadcast = i%3 == 0
		}
		for _, r := range pub.PublishMany(t.Context(), many) {
			wantFull(t, r.Err)
		}
		_, err := pub.Broadcast(t.Context(), message("b", past))
		wantFull(t, err)
		var callers sync.WaitGroup
		for i := range 64 { // who are gathered
			callers.Go(func() {
				_, err := pub.Publish(t.Context(), message(fmt.Sprint(i), past))
				wantFull(t, err)
			})
		}
		callers.Wait()
	})

	goesOn(t, pub, db)
	for _, id := range ids[:len(ids)/2] {
		storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, id)))
	}
	publish(t, pub, large("again", past))
}

// goesOn checks that all calls but publishes work in a full Redis.
func goesOn(t *testing.T, pub client, db *notify.Store) {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	claimer := subscriberstest.Claimer(t, db)
	for _, settle := range []func(context.Context, subscribers.Delivery) error{
		func(ctx context.Context, d subscribers.Delivery) error { return d.Ack(ctx) },
		func(ctx context.Context, d subscribers.Delivery) error {
			return storetest.ErrOf(d.Bury(ctx, "the test says so"))
		},
		func(ctx context.Context, d subscribers.Delivery) error {
			return storetest.ErrOf(claimer.ReleaseMany(ctx, d.Topic, []subscribers.Delivery{d}))
		},
	} {
		storetest.Should(t, settle(t.Context(), claim(t, db, 1)[0]))
	}
	storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, "cancelled")))
	for _, id := range []string{"moved", "sent"} { // the carrier moves both
		storetest.Should(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, id, time.Millisecond)))
	}
	storetest.Eventually(t, "what is due is carried", func() bool {
		c := counts(t, pub)
		return c.Ready == 2 && c.Sent == 1
	})
	if c := counts(t, pub); c.Dead != 1 || c.Acked != 1 {
		t.Errorf("got %+v", c)
	}
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, storetest.Dead(t, db, topic)...); n != 1 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
}

// Refused publishes start again only when some memory is free, so that the answer does
// not change with every message.
func TestFullUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	pub, db := small(t)
	ids := fillUp(t, pub, future)
	for len(ids) > 0 {
		storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, ids[0])))
		ids = ids[1:]
		before := memory(t, db)
		_, err := pub.Publish(t.Context(), message("next", future))
		if err == nil {
			if before.Used > before.Limit*99/100 {
				t.Errorf("it goes on at %+v", before)
			}
			publish(t, pub, large("another", future)) // it does not refuse the next one at once
			return
		}
		wantFull(t, err)
	}
	t.Error("it never goes on")
}

// For a publisher with a share of 100 % only Redis refuses: each publisher has its own
// share.
func TestWholeShare(t *testing.T) {
	t.Parallel()
	pub, db := small(t)
	fillUp(t, pub, future)
	all := storetest.Unhurried(storetest.With(t, notify.Config{URL: db.Address(), MemoryShare: 100}))
	publish(t, clientOf(t, all), large("a", future))
	_, err := pub.Publish(t.Context(), message("b", future))
	wantFull(t, err)
	if m := memory(t, all); m.Limit != m.Max {
		t.Errorf("got %+v", m)
	}
}

// However fast Redis is filled, at most the bodies of some calls are above the share.
func TestFilledFast(t *testing.T) {
	t.Parallel()
	pub, db := small(t)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for j := range 100 {
				batch := make([]notify.Message, 20) // of 2 MB
				for k := range batch {
					batch[k] = large(fmt.Sprintf("%d-%d-%d", i, j, k), future)
				}
				if err := pub.PublishMany(t.Context(), batch)[0].Err; err != nil {
					wantFull(t, err)
					return
				}
			}
		})
	}
	callers.Wait()
	if m := memory(t, db); m.Used < m.Limit-m.Max/4 || m.Used > m.Limit+m.Max/4 { // the buffers of the calls counted, too
		t.Errorf("it is full at %+v", m)
	}
}

// A Redis without a limit accepts everything, and a limit that is set later is noticed.
func TestLimitIsSet(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory-policy", "noeviction")
	db := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	pub := clientOf(t, db)
	for i := range 100 {
		publish(t, pub, large(fmt.Sprint(i), future))
	}
	m := memory(t, db)
	if m.Max != 0 || m.Limit != 0 || m.Used <= 0 {
		t.Errorf("got %+v", m)
	}
	do(t, db, []any{"CONFIG", "SET", "maxmemory", m.Used * 100 / 95}) // so that more than 90 % are in use
	var err error
	storetest.Eventually(t, "it is noticed", func() bool {
		_, err = pub.Publish(t.Context(), message(notify.NewID(), future))
		return err != nil
	})
	if !errors.Is(err, notify.ErrFull) || !strings.Contains(err.Error(), "90% are for messages") {
		t.Errorf("got %v", err)
	}
}

// Redis is set to evict messages while publishers work: within a second they are
// refused, whatever their share is, and all else goes on. They work again when the
// policy is corrected.
func TestPolicyIsChanged(t *testing.T) {
	t.Parallel()
	for _, share := range []int{reach.DefaultMemoryShare, 100} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
			db, err := notify.Open(notify.Config{URL: server.URL(), MemoryShare: share})
			storetest.Must(t, err)
			t.Cleanup(func() { db.Close() })
			pub := clientOf(t, storetest.Unhurried(db))
			publish(t, pub, message("a", past))
			do(t, db, []any{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"})
			storetest.Eventually(t, "publishes are refused", func() bool {
				_, err = pub.Publish(t.Context(), message(notify.NewID(), future))
				return err != nil
			})
			if !errors.Is(err, notify.ErrUnfit) || !strings.Contains(err.Error(), "allkeys-lru") || !strings.Contains(err.Error(), "CONFIG SET maxmemory-policy noeviction") {
				t.Errorf("refused with %v", err)
			}
			unchanged(t, db, func() {
				storetest.Fails(t, "the next one", storetest.ErrOf(pub.Publish(t.Context(), message("b", past))), notify.ErrUnfit)
			})
			if !memory(t, db).Evicts {
				t.Error("what it tells of its memory is that it evicts nothing")
			}
			storetest.Should(t, claim(t, db, 1)[0].Ack(t.Context()))
			do(t, db, []any{"CONFIG", "SET", "maxmemory-policy", "noeviction"})
			publish(t, pub, message("c", past))
		})
	}
}

// A measurement from before the clock was set back holds no longer than any other.
func TestRoomIsMeasuredAgainWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	pub, db := small(t)
	fillUp(t, pub, future)
	measured := time.Now().Add(time.Hour).UnixMilli()
	do(t, db, []any{"SET", db.KeysOf(topic).Room(50), measured})
	var err error
	for i := 0; err == nil; i++ { // some may fit, since the buffer of a call that was refused is free
		_, err = pub.Publish(t.Context(), large(fmt.Sprint(i), future))
	}
	wantFull(t, err)
}

func TestMemoryShareOutOfRange(t *testing.T) {
	t.Parallel()
	for _, share := range []int{-1, 101} {
		if _, err := notify.Open(notify.Config{MemoryShare: share}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "use 1 to 100") {
			t.Errorf("%d: got %v", share, err)
		}
	}
}
