package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// aged runs a handler of messages of an age, and returns when its connection stands.
func aged(t *testing.T, db *notify.Store, age time.Duration, h subscribers.Handler) (stop func()) {
	t.Helper()
	stop = handle(t, db, subscribers.SubscriberOptions{}, h, subscribers.HandleOptions{MinAge: age, Concurrency: 4})
	storetest.Eventually(t, "it is subscribed", func() bool {
		n, err := db.Listening(t.Context(), db.Of(topic).WakeChannel(topic))
		return err == nil && n == 1
	})
	return stop
}

// A handler of messages of an age gets what nobody else claimed for so long, exactly then, also what was rejected or released; it
// takes nothing from others, and waits in no list.
func TestHandlerOfAnAge(t *testing.T) {
	t.Parallel()
	db := beating(t, storetest.Open(t))
	const age = time.Second
	storetest.Set(t, db, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(time.Millisecond)})
	carry(t, db)
	got := make(chan subscribers.Delivery, 100)
	refuse := errors.New("not yet")
	aged(t, db, age, func(_ context.Context, d *subscribers.Delivery) error {
		if is := d.Receipt.Until().Sub(d.Due) - d.Lease; is < age {
			t.Errorf("%s is only %v old", d.ID, is)
		}
		got <- *d
		if d.ID == "fails" && d.Attempt == 1 {
			return refuse
		}
		return nil
	})
	p, _ := newPoller(t, db)
	another := func(id string) (d *subscribers.Delivery) { // claims a message before it is of that age
		t.Helper()
		rounds(t, func(i int) error {
			m := body(fmt.Sprint(id, i))
			began := time.Now()
			storetest.Publish(t, db, m)
			ds, err := p.Claim(t.Context(), topic)
			if took := time.Since(began); err == nil && len(ds) == 0 && took >= age {
				if d := storetest.Receive(t, "it is handled", got); d.ID != m.ID {
					t.Errorf("got %+v, want %s", d, m.ID)
				}
				return fmt.Errorf("claimed after %v", took)
			}
			if err != nil || len(ds) != 1 {
				t.Fatalf("another one gets %v, %v", ds, err)
			}
			d = &ds[0]
			return nil
		})
		if d == nil {
			t.FailNow()
		}
		return d
	}
	if err := another("others").Ack(t.Context()); err != nil {
		t.Error(err)
	}
	storetest.Publish(t, db, dueBefore(topic, "old", time.Hour))
	for _, id := range []string{"old", "one", "fails", "fails", "later"} {
		switch {
		case id == "old": // published before
		case id == "later":
			m := body(id)
			m.Delay = 20 * time.Millisecond
			storetest.Publish(t, db, m)
		case id != "fails" || len(got) == 0:
			_, err := storetest.Publisher(t, db).Publish(t.Context(), body(id))
			if err != nil && !errors.Is(err, notify.ErrExists) {
				t.Fatal(err)
			}
		}
		if d := storetest.Receive(t, id, got); d.ID != id || d.HandedOver {
			t.Errorf("got %+v, want %s", d, id)
		}
	}
	waits(t, db, 0)
	settled(t, db)
	released := another("released")
	<-time.After(2 * age) // it is leased for longer than the age
	if err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := storetest.Receive(t, "what was released", got); d.Attempt != 1 {
		t.Errorf("got %+v", d)
	}
	settled(t, db)
}

// At rest such a handler makes no call, and on a busy topic not one for each message.
func TestHandlerOfAnAgeIsCalm(t *testing.T) {
	t.Parallel()
	db := beating(t, storetest.At(t, storetest.Server(t).URL(), ""))
	var handled atomic.Int64
	aged(t, db, time.Hour, func(context.Context, *subscribers.Delivery) error {
		handled.Add(1)
		return nil
	})
	storetest.Publish(t, db, body("first"))
	beats(t, db, 3)
	var before int
	storetest.Eventually(t, "no calls in five beats", func() bool { // a new connection costs some
		before = commandCalls(t, db, "evalsha")
		beats(t, db, 5)
		return commandCalls(t, db, "evalsha") == before
	})
	began := time.Now()
	const n = 500
	for i := range n {
		storetest.Publish(t, db, body(fmt.Sprint(i)))
	}
	claims, most := commandCalls(t, db, "evalsha")-before-n, int(time.Since(began)/(50*time.Millisecond))+2
	if claims > most {
		t.Errorf("%d claims while %d messages were published in %v", claims, n, time.Since(began))
	}
	old := dueBefore(topic, "old", 2*time.Hour)
	storetest.Publish(t, db, old)
	storetest.Eventually(t, "the old one is handled", func() bool { return handled.Load() == 1 })
	waits(t, db, 0)
}

// Whatever becomes of its connection, it gets what becomes old.
func TestHandlerOfAnAgeThroughFaults(t *testing.T) {
	t.Parallel()
	db := alone(t)
	got := make(chan string, 100)
	aged(t, db, 50*time.Millisecond, func(_ context.Context, d *subscribers.Delivery) error {
		got <- d.ID
		return nil
	})
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
	if err := inspector.Pause(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	storetest.Publish(t, db, body("paused"))
	beats(t, db, 3)
	if err := inspector.Resume(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if is := storetest.Receive(t, "what was paused", got); is != "paused" {
		t.Errorf("got %s", is)
	}
	settled(t, db)
}

func TestBadAge(t *testing.T) {
	t.Parallel()
	s, err := subscribers.NewSubscriber(storetest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }, subscribers.HandleOptions{MinAge: -1, Concurrency: -1})
	if len(store.Faults(err)) != 2 {
		t.Errorf("got %v", err)
	}
	for _, fault := range store.Faults(err) {
		if fault.Field != "min_age" && fault.Field != "concurrency" {
			t.Errorf("got a fault of %s", fault.Field)
		}
	}
}
