package subscribers_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// What is tried behind the pause is the oldest each time, or one behind the other. It keeps its place, and how late it is does not count.
func TestNotNowTries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refuse func(error, time.Duration) error
		want   string
	}{
		"the oldest": {subscribers.NotNow, "e a a a a a"},
		"another":    {subscribers.TryAnother, "e a b c e a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			keys := db.KeysOf(topic)
			storetest.Must(t, db.Client().HSet(t.Context(), keys.Topics(), "*:history", 1).Err())
			tries, over := make(chan *subscribers.Delivery, 100), make(chan struct{})
			handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
				if d.ID == "e" && len(tries) == 0 {
					storetest.Publish(t, db, body("a"), body("b"), body("c"))
					for _, id := range []string{"a", "b", "c"} {
						storetest.Should(t, db.Client().ZIncrBy(t.Context(), keys.Ready(topic), -float64(time.Hour.Milliseconds()), topic+":"+id).Err())
					}
				}
				if tries <- d; len(tries) > 5 {
					close(over)
					return subscribers.NotNow(errBarred, time.Hour)
				}
				return test.refuse(errBarred, time.Millisecond)
			})
			storetest.Publish(t, db, body("e"))
			storetest.Receive(t, "all are tried", over)
			var ids []string
			for range 6 {
				d := <-tries
				ids = append(ids, d.ID)
				if late := d.Late() >= time.Hour; late != (d.ID != "e") {
					t.Errorf("%s is %v late", d.ID, d.Late())
				}
			}
			if got := strings.Join(ids, " "); got != test.want {
				t.Errorf("it tried %s, want %s", got, test.want)
			}
			c, err := storetest.Count(db, topic)
			if err != nil || c.Lateness >= time.Hour || c.Overdue < time.Hour {
				t.Errorf("got %+v, %v", c, err)
			}
			buckets, err := db.Client().HGetAll(t.Context(), keys.Lateness()).Result()
			if err != nil || buckets["l"] != "" || len(buckets) != 1 {
				t.Errorf("counted as late are %v, %v", buckets, err)
			}
		})
	}
}

// While one subscriber is barred, another gets the messages at once, and other topics of the same go on.
func TestNotNowLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	barred, other := make(chan string, 100), make(chan string, 100)
	sub := subscriberstest.Subscriber(t, db)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		barred <- d.ID
		return subscribers.NotNow(errBarred, time.Hour)
	}, subscribers.HandleOptions{Concurrency: 4}))
	if err := sub.Handle("other", idsInto(other)); err != nil {
		t.Fatal(err)
	}
	stop := storetest.Run(t, sub.Run)
	storetest.Publish(t, db, body("first"))
	storetest.Receive(t, "it is refused", barred)

	got := make(chan string, 100)
	handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
		if d.Attempt != 1 {
			t.Errorf("%s comes in attempt %d", d.ID, d.Attempt)
		}
		got <- d.ID
		return nil
	})
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
	if n := len(barred); n > 0 {
		t.Errorf("the barred one was called %d times again", n)
	}
	stop() // which a pause does not hold up
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
	told := storetest.Subscribe(t, db, channel).Channel()
	received := func() map[string]any {
		t.Helper()
		var got map[string]any
		storetest.Should(t, json.Unmarshal([]byte(storetest.Receive(t, "a death is told", told).Payload), &got))
		delete(got, "topic") // of one of several shards
		return got
	}
	want := func(id, reason string, attempts float64) {
		t.Helper()
		storetest.Same(t, "told", map[string]any{"id": id, "reason": reason, "attempts": attempts}, received())
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
	storetest.Must(t, storetest.ErrOf(claim().Bury(t.Context(), "no \"use\"\n\x01 ümlaut")))
	want("a", "no \"use\"\n\x01 ümlaut", 1)
	m := body("b")
	m.MaxAttempts = 1
	storetest.Publish(t, db, m)
	storetest.Must(t, storetest.ErrOf(claim().Nack(t.Context(), 0, "failed")))
	want("b", "failed", 1)
	m = body("c")
	m.TTL = time.Millisecond
	storetest.Publish(t, db, m)
	info := inspect(t, db, "c")
	storetest.Eventually(t, "it has expired, and nobody carries", func() bool {
		now, err := db.Client().Time(t.Context()).Result()
		return err == nil && now.After(info.Expires.Add(time.Millisecond))
	})
	if ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute}); err != nil || len(ds) != 0 {
		t.Fatal(ds, err)
	}
	want("c", "expired", 0)
}
