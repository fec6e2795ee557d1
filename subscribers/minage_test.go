package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// aged runs a handler of messages of an age, and returns when its connection stands.
func aged(t *testing.T, db *notify.Store, age time.Duration, h subscribers.Handler) (stop func()) {
	t.Helper()
	stop = handle(t, db, h, subscribers.HandleOptions{MinAge: age, Concurrency: 4})
	storetest.Eventually(t, "it is subscribed", func() bool {
		n, err := db.Listening(t.Context(), db.Of(topic).WakeChannel(topic))
		return err == nil && n == 1
	})
	return stop
}

// A handler of messages of an age gets what nobody else claimed for so long, exactly then: no beat and no ring helps. It takes
// nothing from others, and waits in no list.
func TestHandlerOfAnAge(t *testing.T) {
	t.Parallel()
	db := beating(t, storetest.Open(t))
	p, _ := runClaimer(t, db)
	storetest.Publish(t, db, dueBefore(topic, "released", 2*time.Hour))
	released := claimOne(t, p, time.Minute)
	got := make(chan subscribers.Delivery, 100)
	aged(t, db, time.Hour, func(_ context.Context, d *subscribers.Delivery) error {
		if is := d.Receipt.Until().Sub(d.Due) - d.Lease; is < time.Hour {
			t.Errorf("%s is only %v old", d.ID, is)
		}
		got <- *d
		return nil
	})
	wants := func(id string) {
		t.Helper()
		if d := storetest.Receive(t, id, got); d.ID != id || d.HandedOver || d.Attempt != 1 {
			t.Errorf("got %+v, want %s", d, id)
		}
	}
	storetest.Publish(t, db, body("young"), dueBefore(topic, "ripe-soon", time.Hour-300*time.Millisecond))
	wants("ripe-soon")
	storetest.Publish(t, db, dueBefore(topic, "old", 2*time.Hour))
	wants("old")
	storetest.Must(t, released.Release(t.Context()))
	wants("released")
	waits(t, db, 0)
	young := claimOne(t, p, time.Minute)
	if err := young.Ack(t.Context()); err != nil || young.ID != "young" {
		t.Errorf("another one gets %s, %v", young.ID, err)
	}
	settled(t, db)
}

// What was rejected, or becomes due later, is handled when it has the age again.
func TestHandlerOfAnAgeRejects(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	const age = 300 * time.Millisecond
	storetest.Set(t, db, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(time.Millisecond)})
	carry(t, db)
	got := make(chan string, 100)
	aged(t, db, age, func(_ context.Context, d *subscribers.Delivery) error {
		if is := d.Receipt.Until().Sub(d.Due) - d.Lease; is < age {
			t.Errorf("%s is only %v old", d.ID, is)
		}
		got <- fmt.Sprint(d.ID, d.Attempt)
		if d.ID == "fails" && d.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	fails, later := body("fails"), body("later")
	later.Delay = 20 * time.Millisecond
	for _, one := range []struct {
		m    notify.Message
		want []string
	}{{fails, []string{"fails1", "fails2"}}, {later, []string{"later1"}}} {
		storetest.Publish(t, db, one.m)
		for _, want := range one.want {
			if is := storetest.Receive(t, want, got); is != want {
				t.Errorf("got %s, want %s", is, want)
			}
		}
	}
	settled(t, db)
}

// At rest such a handler makes no call, and on a busy topic not one for each message.
func TestHandlerOfAnAgeIsCalm(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	own := storetest.At(t, storetest.URL(), db.Keys().Prefix())
	var claims, handled atomic.Int64
	own.Observe(func(script string, _ time.Duration, _ error) {
		if script == "claim" {
			claims.Add(1)
		}
	})
	beating(t, db)
	aged(t, own, time.Hour, func(context.Context, *subscribers.Delivery) error {
		handled.Add(1)
		return nil
	})
	storetest.Publish(t, db, body("first"))
	storetest.Eventually(t, "no claim in five beats", func() bool { // a new connection costs some
		before := claims.Load()
		beats(t, db, 5)
		return claims.Load() == before
	})
	began, before := time.Now(), claims.Load()
	const n = 500
	for i := range n {
		storetest.Publish(t, db, body(fmt.Sprint(i)))
	}
	if n, most := claims.Load()-before, int64(time.Since(began)/(50*time.Millisecond))+2; n > most {
		t.Errorf("%d claims while messages were published for %v", n, time.Since(began))
	}
	storetest.Publish(t, db, dueBefore(topic, "old", 2*time.Hour))
	storetest.Eventually(t, "the old one is handled", func() bool { return handled.Load() == 1 })
	waits(t, db, 0)
}

// Whatever becomes of its connection, it gets what becomes old.
func TestHandlerOfAnAgeThroughFaults(t *testing.T) {
	t.Parallel()
	db := beating(t, alone(t))
	got := make(chan string, 100)
	aged(t, db, 50*time.Millisecond, idsInto(got))
	for i := range 10 {
		kind := []string{"pubsub", "normal"}[i%2]
		_ = db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", kind).Err() // that of its own connection
		id := fmt.Sprint(i)
		storetest.Eventually(t, "it is published", func() bool {
			_, err := storetest.Publisher(t, db).Publish(t.Context(), body(id))
			return err == nil || errors.Is(err, notify.ErrExists)
		})
		if is := storetest.Receive(t, id, got); is != id {
			t.Errorf("got %s, want %s", is, id)
		}
	}
	inspector := storetest.Inspector(t, db)
	storetest.Must(t, inspector.Pause(t.Context(), topic))
	storetest.Publish(t, db, body("paused"))
	beats(t, db, 3)
	storetest.Must(t, inspector.Resume(t.Context(), topic))
	if is := storetest.Receive(t, "what was paused", got); is != "paused" {
		t.Errorf("got %s", is)
	}
	settled(t, db)
}
