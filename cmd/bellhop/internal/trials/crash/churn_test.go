package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	churnFor  = 8 * time.Second
	churnLife = time.Second // longest life of a carrier or a subscriber
)

// books records the messages of a churn.
type books struct {
	mu        sync.Mutex
	published map[string]bool // publish acknowledged, not cancelled
	cancelled map[string]bool // cancel acknowledged
	handled   map[string]bool
	faults    []string
}

func (b *books) note(in map[string]bool, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in[id] = true
}

// churn repeats f, each time for a random while, until ctx ends.
func churn(ctx context.Context, t *testing.T, all *sync.WaitGroup, f func(context.Context) error) {
	all.Go(func() {
		for ctx.Err() == nil {
			life, stop := context.WithTimeout(ctx, rand.N(churnLife))
			storetest.Should(t, f(life))
			stop()
		}
	})
}

// handle handles a message: most succeed, some fail, some are slow.
func (b *books) handle(ctx context.Context, d *subscribers.Delivery) error {
	b.mu.Lock()
	b.handled[d.ID] = true
	if time.Now().Before(d.Due) {
		b.faults = append(b.faults, d.ID+" was early")
	}
	if b.cancelled[d.ID] {
		b.faults = append(b.faults, d.ID+" was handled after it was cancelled")
	}
	b.mu.Unlock()
	switch rand.IntN(40) {
	case 0:
		return errors.New("not this time")
	case 1:
		return subscribers.RetryAfter(nil, time.Millisecond)
	case 2:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(300 * time.Millisecond)):
		}
	}
	return nil
}

// publish publishes a message, and cancels or reschedules some.
func (b *books) publish(pub *notify.Publisher, id string) {
	ctx := context.Background()
	m := notify.Message{Topic: topic, ID: id, Body: []byte("x"), Delay: rand.N(time.Second)}
	if _, err := pub.Publish(ctx, m); err != nil {
		return // the outcome is unknown
	}
	switch rand.IntN(20) {
	case 0:
		switch _, err := pub.Cancel(ctx, topic, id); {
		case err == nil:
			b.note(b.cancelled, id)
			return
		case !errors.Is(err, notify.ErrLeased) && !errors.Is(err, notify.ErrNotFound):
			return // the outcome is unknown
		}
	case 1:
		_, _ = pub.RescheduleIn(ctx, topic, id, rand.N(time.Second)+1) // the message stays, whatever the outcome
	}
	b.note(b.published, id)
}

// Carriers and subscribers come and go while handlers fail, connections are cut and scripts
// flushed. Every acknowledged message is handled, none early; cancelled ones are not, and
// nothing is left.
func TestChurn(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "")
	storetest.Set(t, store, topic, notify.SettingsChange{
		Attempts: new(1000), Lease: new(aLease()), BackoffMin: new(time.Millisecond), BackoffMax: new(50 * time.Millisecond),
	})
	b := &books{published: make(map[string]bool), cancelled: make(map[string]bool), handled: make(map[string]bool)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var crew sync.WaitGroup
	for range 3 {
		churn(ctx, t, &crew, func(ctx context.Context) error {
			c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease})
			if err != nil {
				return err
			}
			return c.Run(ctx)
		})
	}
	for range 4 {
		churn(ctx, t, &crew, func(ctx context.Context) error {
			sub, err := subscribers.NewSubscriber(store, subscribers.SubscriberOptions{Grace: rand.N(100*time.Millisecond) + 1})
			if err != nil {
				return err
			}
			if err := sub.Handle(topic, b.handle, subscribers.HandleOptions{Concurrency: 1 + rand.IntN(16)}); err != nil {
				return err
			}
			return sub.Run(ctx)
		})
	}
	publishing, enough := context.WithTimeout(ctx, churnFor)
	defer enough()
	var publishers sync.WaitGroup
	pub := storetest.Publisher(t, store)
	for p := range 3 {
		publishers.Go(func() {
			for i := 0; publishing.Err() == nil; i++ {
				b.publish(pub, fmt.Sprintf("%d-%d", p, i))
			}
		})
	}
	publishers.Go(func() { disturb(publishing, store) })
	publishers.Wait()
	gone(t, store)
	stop()
	crew.Wait()

	for id := range b.published {
		if !b.handled[id] {
			t.Errorf("%s was acknowledged and never handled", id)
		}
	}
	for _, fault := range b.faults {
		t.Error(fault)
	}
	t.Logf("%d were published, %d cancelled, %d handled", len(b.published), len(b.cancelled), len(b.handled))
	storetest.Empty(t, store)
}

// aLease returns a random lease, sometimes longer than the life of a subscriber.
func aLease() time.Duration { return 300*time.Millisecond + rand.N(time.Second) }

// disturb cuts connections, flushes scripts, pauses Redis and changes the lease, until ctx ends.
func disturb(ctx context.Context, store *notify.Store) {
	faults := [][]any{
		{"SCRIPT", "FLUSH"}, {"CLIENT", "KILL", "TYPE", "pubsub"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", "100"},
	}
	inspector, err := notify.NewInspector(store)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		store.Client().Do(ctx, faults[rand.IntN(len(faults))]...)
		_, _ = inspector.Set(ctx, topic, notify.SettingsChange{Lease: new(aLease())}) // whatever the outcome, another one follows
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(500 * time.Millisecond)):
		}
	}
}
