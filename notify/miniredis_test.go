package notify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// trial returns a store in the embedded server that a trial uses where no
// redis-server is installed.
func trial(t *testing.T) *notify.Store {
	t.Helper()
	server := miniredis.RunT(t)
	ctx, cancel := context.WithCancel(context.Background())
	var pump sync.WaitGroup
	pump.Go(func() { // by itself it lets nothing expire
		const step = 50 * time.Millisecond
		for every := time.NewTicker(step); ; {
			select {
			case <-ctx.Done():
				every.Stop()
				return
			case <-every.C:
				server.FastForward(step)
			}
		}
	})
	t.Cleanup(pump.Wait)
	t.Cleanup(cancel)
	return storetest.At(t, "redis://"+server.Addr(), "")
}

// The main path works in the embedded server as it does in Redis.
func TestMainPathInTheTrialServer(t *testing.T) {
	store := trial(t)
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	pub := notify.NewPublisher(store, notify.PublisherOptions{})
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease})
	if err != nil {
		t.Fatal(err)
	}
	stopCarrier := storetest.Run(t, c.Run)
	handled, died := make(chan string, 10), make(chan string, 10)
	stopSubscriber := storetest.Run(t, trialSubscriber(t, store, handled, died).Run)

	delayed := func(id string, delay time.Duration) notify.Message {
		return notify.Message{Topic: topic, ID: id, Body: []byte("body of " + id), Delay: delay, TTL: anHour}
	}
	publish(t, pub, delayed("cancelled", 100*time.Millisecond))
	if was, err := pub.Cancel(t.Context(), topic, "cancelled"); err != nil || was != notify.Scheduled {
		t.Errorf("cancel: it was %v, %v", was, err)
	}
	publish(t, pub, message("at-once", time.Time{}))
	publish(t, pub, delayed("delayed", 30*time.Millisecond))
	publish(t, pub, delayed("fails-once", 10*time.Millisecond))
	publish(t, pub, delayed("rescheduled", anHour))
	if _, err := pub.Reschedule(t.Context(), topic, "rescheduled", 20*time.Millisecond, time.Time{}); err != nil {
		t.Error(err)
	}
	got := map[string]bool{}
	for range 5 {
		got[storetest.Receive(t, "a delivery", handled)] = true
	}
	want := map[string]bool{"at-once 1": true, "delayed 1": true, "fails-once 1": true, "fails-once 2": true, "rescheduled 1": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}

	publish(t, pub, delayed("dies", 10*time.Millisecond))
	storetest.Receive(t, "a delivery", handled)
	if death := storetest.Receive(t, "a death", died); death != "dies 1: buried by the handler" {
		t.Errorf("death %q", death)
	}
	if info, err := pub.Inspect(t.Context(), topic, "dies"); err != nil || info.State != notify.Dead || info.Attempts != 1 {
		t.Errorf("dead letter %+v, %v", info, err)
	}
	if n, err := subscribers.NewDeadLetters(store).Requeue(t.Context(), topic, "dies"); err != nil || n != 1 {
		t.Errorf("requeued %d, %v", n, err)
	}
	storetest.Receive(t, "a delivery", handled)
	storetest.Receive(t, "a death", died)
	if n, err := subscribers.NewDeadLetters(store).PurgeAll(t.Context(), topic, nil); err != nil || n != 1 {
		t.Errorf("purged %d, %v", n, err)
	}

	stopSubscriber()
	stopCarrier()
	wantCounts(t, pub, notify.Counts{Published: 6, Acked: 4})
	storetest.Empty(t, store)
	if status, err := carrier.Look(t.Context(), store); err != nil || status.Name != "" {
		t.Errorf("after it stepped down the carrier is %+v, %v", status, err)
	}
}

// trialSubscriber tells of each delivery as "ID ATTEMPT" and of each death as "ID ATTEMPTS: REASON".
func trialSubscriber(t *testing.T, store *notify.Store, handled, died chan<- string) *subscribers.Subscriber {
	t.Helper()
	sub, err := subscribers.New(store, subscribers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler := func(_ context.Context, d *subscribers.Delivery) error {
		if string(d.Body) != "body of "+d.ID {
			t.Errorf("%s has the body %q", d.ID, d.Body)
		}
		handled <- fmt.Sprintf("%s %d", d.ID, d.Attempt)
		switch {
		case d.ID == "dies":
			return subscribers.ErrBury
		case d.ID == "fails-once" && d.Attempt == 1:
			return subscribers.RetryAfter(errors.New("not yet"), 10*time.Millisecond)
		}
		return nil
	}
	o := subscribers.HandleOptions{Concurrency: 2, OnDead: func(d subscribers.Death) {
		died <- fmt.Sprintf("%s %d: %s", d.ID, d.Attempts, d.Reason)
	}}
	if err := sub.Handle(topic, handler, o); err != nil {
		t.Fatal(err)
	}
	return sub
}

// What nobody handles in time expires, and the lease of who died ends.
func TestTimesRunOutInTheTrialServer(t *testing.T) {
	store := trial(t)
	pub := notify.NewPublisher(store, notify.PublisherOptions{})
	died := make(chan carrier.Death, 1)
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease, OnDead: func(d carrier.Death) { died <- d }})
	if err != nil {
		t.Fatal(err)
	}
	m := message("expires", time.Time{})
	m.TTL = 10 * time.Millisecond
	publish(t, pub, message("leased", time.Time{}))
	if ds, err := subscribers.NewClaimer(store, 0).Claim(t.Context(), topic, 1, subscribers.MinLease, 0); err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	publish(t, pub, m)
	// Somebody was elected and is gone: the lease in Redis has to end.
	if err := store.Client().Set(t.Context(), store.Keys().Carrier(), "1 1 gone", carrier.MinLease).Err(); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, c.Run)
	if d := storetest.Receive(t, "a death", died); d.ID != "expires" || d.Reason != "expired" {
		t.Errorf("death %+v", d)
	}
	storetest.Eventually(t, "the lease ends", func() bool { return stateOf(t, pub, "leased") == notify.Ready })
}
