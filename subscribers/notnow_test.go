package subscribers_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

var errBarred = errors.New("the way is barred")

// While the circuit is open nothing is handled but one message at a time, at the
// pace of the pauses, and nothing is used up; then it is full speed again. No
// carrier runs: nobody's beat is needed.
func TestNotNow(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const hands, n, pause = 8, 200, 100 * time.Millisecond
	var mu sync.Mutex
	var refused []time.Time // when it was NotNow
	var probes []time.Time
	attempts := map[string]int{}
	barred, now, most := true, 0, 0
	together := make(chan struct{}) // closed when some are handled at the same time again
	atOnce := sync.OnceFunc(func() { close(together) })
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1)})
	handle(t, db, subscribers.SubscriberOptions{}, func(_ context.Context, d *subscribers.Delivery) error {
		mu.Lock()
		now++
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		if barred {
			if len(refused) >= hands {
				probes = append(probes, time.Now())
				if most = max(most, now); now > 1 {
					t.Errorf("%d at once, while it probes", now)
				}
			}
			if barred = len(probes) < 3; barred {
				refused = append(refused, time.Now())
				mu.Unlock()
				return subscribers.NotNow(errBarred, pause)
			}
		}
		attempts[d.ID] = d.Attempt
		at := now
		mu.Unlock()
		if at > hands/2 {
			atOnce()
		}
		select {
		case <-together:
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	}, subscribers.HandleOptions{Concurrency: hands})
	storetest.Publish(t, db, numbered(n)...)
	settled(t, db)
	storetest.Receive(t, "it is full speed again", together)
	mu.Lock()
	defer mu.Unlock()
	if len(attempts) != n || counts(t, db).Dead != 0 {
		t.Errorf("%d were handled, %d died", len(attempts), counts(t, db).Dead)
	}
	for id, attempt := range attempts {
		if attempt != 1 {
			t.Errorf("%s came in attempt %d", id, attempt)
		}
	}
	if len(probes) != 3 {
		t.Fatalf("%d probes", len(probes))
	}
	var late []time.Duration
	last := refused[hands-1]
	for i, probe := range probes {
		if wait := probe.Sub(last); wait < pause {
			t.Errorf("probe %d came %v after the refusal before it, want %v", i, wait, pause)
		} else if wait > pause+moments {
			late = append(late, wait)
		}
		last = probe
	}
	if len(late) > 1 { // one may meet a machine that stands still
		t.Errorf("probes came late: %v, want %v", late, pause)
	}
	storetest.Empty(t, db)
}

// A pause of nothing is none, and what is wrapped stays readable.
func TestNotNowAtOnce(t *testing.T) {
	t.Parallel()
	if err := subscribers.NotNow(errBarred, time.Second); !errors.Is(err, errBarred) || err.Error() != errBarred.Error() {
		t.Errorf("got %v", err)
	}
	if err := subscribers.NotNow(nil, time.Second); err == nil || err.Error() == "" {
		t.Errorf("got %v", err)
	}
	db := storetest.Open(t)
	var calls atomic.Int64
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1)})
	handle(t, db, subscribers.SubscriberOptions{}, func(context.Context, *subscribers.Delivery) error {
		switch calls.Add(1) {
		case 1:
			return subscribers.NotNow(nil, 0)
		case 2:
			return subscribers.NotNow(nil, -time.Second)
		case 3:
			return subscribers.NotNow(nil, time.Nanosecond)
		}
		return nil
	}, subscribers.HandleOptions{})
	start := time.Now()
	storetest.Publish(t, db, body("a"), body("b"))
	settled(t, db)
	if took := time.Since(start); took > soon {
		t.Errorf("it took %v", took)
	}
	if n := calls.Load(); n != 5 {
		t.Errorf("%d calls", n)
	}
}

// The pause is kept to where nothing else would wake it: one message, hands that are free, no carrier.
func TestNotNowWakesByItself(t *testing.T) {
	t.Parallel()
	const work, pause, n = time.Millisecond, 5 * time.Millisecond, 40
	db := storetest.Open(t)
	var calls []time.Time // of one message after the other
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1)})
	handle(t, db, subscribers.SubscriberOptions{}, func(context.Context, *subscribers.Delivery) error {
		<-time.After(work) // so that it claims before it learns of the NotNow
		if calls = append(calls, time.Now()); len(calls) <= n {
			return subscribers.NotNow(errBarred, pause)
		}
		return nil
	}, subscribers.HandleOptions{Concurrency: 4})
	storetest.Publish(t, db, body("a"))
	settled(t, db)
	var late []time.Duration
	for i := range n {
		if wait := calls[i+1].Sub(calls[i]); wait < pause {
			t.Errorf("again after %v, want %v", wait, pause)
		} else if wait > pause+moments {
			late = append(late, wait)
		}
	}
	if len(late) > 1 { // one may meet a machine that stands still
		t.Errorf("again after %v, want %v", late, pause)
	}
	if len(calls) != n+1 {
		t.Errorf("%d calls", len(calls))
	}
}

// While one subscriber is barred, another gets the messages at once, and other topics of the same go on.
func TestNotNowLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	barred, other := make(chan string, 100), make(chan string, 100)
	sub, err := subscribers.NewSubscriber(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		barred <- d.ID
		return subscribers.NotNow(errBarred, time.Hour)
	}, subscribers.HandleOptions{Concurrency: 4}); err != nil {
		t.Fatal(err)
	}
	if err := sub.Handle("other", func(_ context.Context, d *subscribers.Delivery) error {
		other <- d.ID
		return nil
	}, subscribers.HandleOptions{}); err != nil {
		t.Fatal(err)
	}
	stop := storetest.Run(t, sub.Run)
	storetest.Publish(t, db, body("first"))
	storetest.Receive(t, "it is refused", barred)

	got := make(chan string, 100)
	handle(t, db, subscribers.SubscriberOptions{}, func(_ context.Context, d *subscribers.Delivery) error {
		if d.Attempt != 1 {
			t.Errorf("%s comes in attempt %d", d.ID, d.Attempt)
		}
		got <- d.ID
		return nil
	}, subscribers.HandleOptions{})
	start := time.Now()
	want := map[string]bool{"first": true}
	for _, m := range numbered(20) {
		storetest.Publish(t, db, m, notify.Message{Topic: "other", ID: m.ID, Body: []byte("x")})
		want[m.ID] = true
	}
	received := map[string]bool{}
	for range want {
		received[storetest.Receive(t, "the other handles it", got)] = true
	}
	if diff := gocmp.Diff(want, received); diff != "" {
		t.Error(diff)
	}
	for range 20 {
		storetest.Receive(t, "the other topic goes on", other)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("it took %v", took)
	}
	if n := len(barred); n > 0 {
		t.Errorf("the barred one was called %d times again", n)
	}
	start = time.Now()
	stop() // which a pause does not hold up
	if took := time.Since(start); took > soon {
		t.Errorf("it stopped after %v", took)
	}
	settled(t, db)
}

// Deaths by a handler, and on claiming, are told to programs of any language as those by the carrier are.
func TestDeathsAreReported(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	channel := db.KeysOf(topic).Death(topic)
	if storetest.Shards() > 1 {
		channel = db.KeysOf(topic).Deaths()
	}
	told := hear(t, db, channel).Channel()
	received := func() map[string]any {
		t.Helper()
		var got map[string]any
		if err := json.Unmarshal([]byte(storetest.Receive(t, "a death is told", told).Payload), &got); err != nil {
			t.Error(err)
		}
		delete(got, "topic") // of one of several shards
		return got
	}
	want := func(id, reason string, attempts float64) {
		t.Helper()
		if diff := gocmp.Diff(map[string]any{"id": id, "reason": reason, "attempts": attempts}, received()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	}
	c := subscriberstest.Claimer(t, db)
	claim := func() *subscribers.Delivery {
		t.Helper()
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		return &ds[0]
	}
	storetest.Publish(t, db, body("a"))
	if _, err := claim().Bury(t.Context(), "no \"use\"\n\x01 ümlaut"); err != nil {
		t.Fatal(err)
	}
	want("a", "no \"use\"\n\x01 ümlaut", 1)
	m := body("b")
	m.MaxAttempts = 1
	storetest.Publish(t, db, m)
	if _, err := claim().Nack(t.Context(), 0, "failed"); err != nil {
		t.Fatal(err)
	}
	want("b", "failed", 1)
	m = body("c")
	m.TTL = time.Millisecond
	storetest.Publish(t, db, m)
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "c")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, "it has expired, and nobody carries", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		return err == nil && now.After(info.Expires.Add(time.Millisecond))
	})
	if ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) != 0 {
		t.Fatal(ds, err)
	}
	want("c", "expired", 0)
}
