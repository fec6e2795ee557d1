package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// publishSome publishes n messages that are due at once.
func publishSome(t testing.TB, db *notify.Store, n int) {
	t.Helper()
	var all []notify.Message
	for i := range n {
		all = append(all, notify.Message{Topic: topic, ID: fmt.Sprint(i)})
	}
	storetest.Publish(t, db, all...)
}

// No more handlers are at work than the topic's concurrency, over all subscribers, whatever becomes of the messages; and all are handled.
func TestConcurrencyOfAllSubscribers(t *testing.T) {
	t.Parallel()
	const most, n = 3, 300
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1000), Concurrency: new(most)})
	var now, done atomic.Int64
	for range 5 {
		handle(t, db, func(context.Context, *subscribers.Delivery) error {
			if at := now.Add(1); at > most {
				t.Errorf("%d handlers are at work, want at most %d", at, most)
			}
			defer now.Add(-1)
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			switch rand.IntN(10) {
			case 0:
				return subscribers.RetryAfter(errors.New("not yet"), time.Millisecond)
			case 1:
				return subscribers.Snooze(time.Millisecond)
			}
			done.Add(1)
			return nil
		}, subscribers.HandleOptions{Concurrency: 8})
	}
	publishSome(t, db, n)
	storetest.Eventually(t, "all are handled", func() bool { return done.Load() == n })
	storetest.Eventually(t, "no slot is left", func() bool {
		return db.Client().ZCard(t.Context(), db.KeysOf(topic).Slots(topic)).Val() == 0
	})
}

// Subscribers handle no more in a time than the topic's rate, and all without a beat: the carrier rings for those that wait.
func TestRateOfAllSubscribers(t *testing.T) {
	t.Parallel()
	const perSecond, n = 1000, 400
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Rate: new(perSecond * record.PerSecond), Burst: new(1)})
	var done atomic.Int64
	for range 3 {
		handle(t, db, func(context.Context, *subscribers.Delivery) error {
			done.Add(1)
			return nil
		}, subscribers.HandleOptions{Concurrency: 2})
	}
	begun := time.Now()
	publishSome(t, db, n)
	storetest.Eventually(t, "all are handled", func() bool { return done.Load() == n })
	if took := time.Since(begun); took < (n-1)*time.Second/perSecond {
		t.Errorf("%d were handled in %v", n, took)
	}
}
