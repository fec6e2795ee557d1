package repair_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	loadRounds = 12 // repairs under load, at least
	loadTopics = 5
	loadEnough = 1000 // messages that are handled meanwhile
)

func topicOf(n int) string { return fmt.Sprintf("load.%d", n%loadTopics) }

// Under a load of everything that Bellhop does nothing is ever out of place: many
// runs find nothing and repair nothing.
func TestNothingIsFoundUnderLoad(t *testing.T) {
	store := open(t)
	storetest.Set(t, store, notify.AllTopics, notify.SettingsChange{
		Attempts: new(2), Lease: new(time.Second), BackoffMin: new(time.Millisecond), BackoffMax: new(10 * time.Millisecond),
	})
	limitOne(t, store)
	ctx, stop := context.WithCancel(t.Context())
	var crew sync.WaitGroup
	defer crew.Wait()
	defer stop()
	var handled, received atomic.Int64
	c, err := carrier.New(store, carrier.Options{
		KeepCount: 100, KeepAge: carrier.MinKeepAge, KeepDeadAge: carrier.MinKeepAge, KeepDeadCount: 10, KeepTopics: carrier.MinKeepAge, Sweep: carrier.MinSweep,
	})
	storetest.Must(t, err)
	crew.Go(func() { must(t, c.Run(ctx)) })
	for range 3 {
		crew.Go(func() { again(ctx, func(ctx context.Context) { must(t, work(ctx, store, &handled)) }) })
	}
	crew.Go(func() { again(ctx, func(ctx context.Context) { must(t, listen(ctx, store, &received)) }) })
	for p := range 3 {
		crew.Go(func() { publish(ctx, t, store, p) })
	}
	messages := 0
	enough := func() bool { return handled.Load() > loadEnough && received.Load() > loadEnough/100 }
	for round := 0; round < loadRounds || !enough(); round++ {
		sum, err := repair.Run(ctx, store, repair.Options{Apply: true}, func(f repair.Finding) { t.Errorf("%+v", f) })
		if err != nil || sum.Found != 0 || sum.Repaired != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		messages += sum.Messages
	}
	t.Logf("%d messages were examined; %d were handled, %d broadcasts received", messages, handled.Load(), received.Load())
}

// limitOne sets limits of one topic.
func limitOne(t *testing.T, db *notify.Store) {
	storetest.Set(t, db, topicOf(0), notify.SettingsChange{Concurrency: new(3), Rate: new(200 * record.PerSecond)})
}

// again repeats f, each time for a while, until ctx ends.
func again(ctx context.Context, f func(context.Context)) {
	for ctx.Err() == nil {
		life, stop := context.WithTimeout(ctx, rand.N(500*time.Millisecond))
		f(life)
		stop()
	}
}

func must(t *testing.T, err error) {
	storetest.Should(t, err)
}

// work handles messages until ctx ends: most succeed, some fail, some are buried.
func work(ctx context.Context, store *notify.Store, handled *atomic.Int64) error {
	sub, err := subscribers.NewSubscriber(store)
	if err != nil {
		return err
	}
	for n := range loadTopics {
		err := sub.Handle(topicOf(n), func(context.Context, *subscribers.Delivery) error {
			handled.Add(1)
			switch rand.IntN(20) {
			case 0:
				return errors.New("not this time")
			case 1:
				return subscribers.ErrBury
			case 2:
				return subscribers.RetryAfter(nil, time.Millisecond)
			}
			return nil
		}, subscribers.HandleOptions{Concurrency: 4})
		if err != nil {
			return err
		}
	}
	return sub.Run(ctx)
}

// listen listens under a name until ctx ends, and removes it now and then.
func listen(ctx context.Context, store *notify.Store, received *atomic.Int64) error {
	l, err := subscribers.NewListener(store)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("shop-%d", rand.IntN(3))
	err = l.Listen(ctx, "load.*", func(context.Context, *subscribers.Broadcast) error {
		received.Add(1)
		return nil
	}, subscribers.ListenOptions{Name: name})
	if err == nil && rand.IntN(3) == 0 {
		inspector, bad := notify.NewInspector(store)
		if bad != nil {
			return bad
		}
		err = inspector.RemoveListener(context.WithoutCancel(ctx), name)
	}
	if errors.Is(err, notify.ErrNoListener) {
		return nil
	}
	return err
}

// publish publishes until ctx ends, and does to messages all that a publisher can.
func publish(ctx context.Context, t *testing.T, store *notify.Store, p int) {
	pub, dead := storetest.Publisher(t, store), storetest.Inspector(t, store)
	for i := 0; ctx.Err() == nil; i++ {
		topic, id := topicOf(i), fmt.Sprintf("%d-%d", p, i)
		var messages []notify.Message
		for n := range 20 {
			m := notify.Message{Topic: topic, ID: fmt.Sprintf("%s-%d", id, n), Body: []byte("x"), Delay: rand.N(200 * time.Millisecond)}
			m.Broadcast = n == 0
			if n == 1 {
				m.TTL = 10 * time.Millisecond
			}
			messages = append(messages, m)
		}
		pub.PublishMany(ctx, messages)
		for _, change := range []func() error{
			func() error { _, err := pub.Cancel(ctx, topic, id+"-2"); return err },
			func() error {
				_, err := pub.RescheduleIn(ctx, topic, id+"-3", 50*time.Millisecond)
				return err
			},
			func() error { _, err := pub.RescheduleIn(ctx, topic, id+"-4", 0); return err },
			func() error { _, err := dead.Requeue(ctx, topic, fmt.Sprintf("%d-%d-5", p, i-loadTopics)); return err },
			func() error { _, err := dead.Purge(ctx, topic, fmt.Sprintf("%d-%d-6", p, i-loadTopics)); return err },
		} {
			err := change()
			if err != nil && ctx.Err() == nil && !errors.Is(err, notify.ErrNotFound) && !errors.Is(err, notify.ErrLeased) && !errors.Is(err, notify.ErrDead) && !notify.Retryable(err) {
				t.Error(err)
			}
		}
	}
}

// places are the keys that hold where messages are, some of them per topic.
var places = []string{"scheduled", "ready", "leased", "expiries", "attempts", "topics", "scheduled:load.0", "scheduled:load.1", "ready:load.0", "ready:load.1"}

// Keys vanish under load while repairs run. Every published message is handled,
// whatever vanished, as long as its record is there.
func TestRepairsBesideALoad(t *testing.T) {
	store := open(t)
	quick := notify.SettingsChange{Attempts: new(1000), Lease: new(time.Second)}
	storetest.Set(t, store, notify.AllTopics, quick)
	var mu sync.Mutex
	published, handled := make(map[string]bool), make(map[string]bool)
	carriertest.Run(t, store)
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	for n := range loadTopics {
		err := sub.Handle(topicOf(n), func(_ context.Context, d *subscribers.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			handled[d.ID] = true
			return nil
		}, subscribers.HandleOptions{})
		storetest.Must(t, err)
	}
	storetest.Run(t, sub.Run)

	pub := storetest.Publisher(t, store)
	repaired := 0
	for round := range 3 * loadRounds {
		var messages []notify.Message
		for n := range 200 {
			id := fmt.Sprintf("%d-%d", round, n)
			messages = append(messages, notify.Message{Topic: topicOf(n), ID: id, Body: []byte("x"), Delay: rand.N(100 * time.Millisecond), TTL: time.Hour})
			published[id] = true
		}
		for _, result := range pub.PublishMany(t.Context(), messages) {
			must(t, result.Err)
		}
		must(t, store.Client().Del(t.Context(), store.Keys().Base()+places[rand.IntN(len(places))]).Err())
		storetest.Set(t, store, notify.AllTopics, quick) // they vanish with the counters
		_, sum := run(t, store, true)
		repaired += sum.Repaired
	}
	for left, done := int64(len(published)+1), false; !done; {
		before := left
		storetest.Eventually(t, "fewer are left, and in the end nothing", func() bool {
			_, sum := run(t, store, true) // a counter may have vanished while its messages were leased
			n, err := store.Client().HLen(t.Context(), store.Keys().Messages()).Result()
			if err != nil {
				return false
			}
			left, done = n, n == 0 && sum.Found == 0
			return done || left > 0 && left < before
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for id := range published {
		if !handled[id] {
			t.Errorf("%s was never handled", id)
		}
	}
	if repaired == 0 {
		t.Error("nothing was ever repaired")
	}
	t.Logf("%d were published, %d faults repaired", len(published), repaired)
}
