package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// stops cancels a leased message, so that its worker stops.
func stops(t *testing.T, db *notify.Store, id string) {
	t.Helper()
	was, err := storetest.Publisher(t, db).Cancel(t.Context(), topic, id, store.CancelOptions{Stop: true})
	if err != nil || was != notify.Leased {
		t.Fatalf("%s was %v, %v; want leased", id, was, err)
	}
}

// isGone waits until nothing is left of a message.
func isGone(t *testing.T, db *notify.Store, id string) {
	t.Helper()
	storetest.Eventually(t, id+" is gone", func() bool {
		_, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, id)
		return errors.Is(err, notify.ErrNotFound)
	})
}

// hourly has the leases of the topic last an hour, so that no extension tells of anything. A stop is told once.
func hourly(t *testing.T) *notify.Store {
	t.Helper()
	db := storetest.Unhurried(storetest.Open(t))
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(time.Hour)})
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MaxLease}) // it is elected once
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "a carrier is elected", func() bool { // whose first beat would have workers noted again
		s, err := carrier.Look(t.Context(), db.Home())
		return err == nil && s.Epoch > 0
	})
	return db
}

// arrived waits until the worker of a handler is noted under its name: nobody could be told before.
func arrived(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "the worker is noted", func() bool {
		_, names := workers(t, db)
		return len(names) > 0
	})
}

// The context of a handler ends when its message is cancelled with a stop. Whatever it returns then, the message is cancelled: it does not
// come again, is not dead, and counts as no attempt.
func TestCancelStops(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, d *subscribers.Delivery) error{
		"nothing":   succeeds,
		"its cause": func(ctx context.Context, _ *subscribers.Delivery) error { return context.Cause(ctx) },
		"a burial":  func(context.Context, *subscribers.Delivery) error { return subscribers.ErrBury },
		"a snooze":  func(context.Context, *subscribers.Delivery) error { return subscribers.Snooze(time.Hour) },
		"not now": func(context.Context, *subscribers.Delivery) error {
			return subscribers.NotNow(errors.New("busy"), time.Second)
		},
		"a panic":     func(context.Context, *subscribers.Delivery) error { panic("stopped") },
		"its nack":    func(_ context.Context, d *subscribers.Delivery) error { return nacksCancelled(d) },
		"its release": func(_ context.Context, d *subscribers.Delivery) error { return d.Release(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := hourly(t)
			began, causes := make(chan string, 10), make(chan error, 10)
			handleAs(t, db, subscribers.SubscriberOptions{Name: `a"b\<c>`}, func(ctx context.Context, d *subscribers.Delivery) error {
				if d.ID == "last" {
					began <- d.ID
					return nil
				}
				if err := d.Extend(ctx, time.Hour); err != nil { // which confirms a hand-over
					return err
				}
				began <- d.ID
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end(ctx, d)
			})
			arrived(t, db)
			storetest.Publish(t, db, body("a"))
			storetest.Receive(t, "the message is handled", began)
			stops(t, db, "a")
			if cause := storetest.Receive(t, "the context ends", causes); !errors.Is(cause, store.ErrCancelled) {
				t.Errorf("it ended by %v", cause)
			}
			isGone(t, db, "a")
			storetest.Publish(t, db, body("last"))
			if id := storetest.Receive(t, "another message is handled", began); id != "last" {
				t.Errorf("%s came again", id)
			}
			settled(t, db)
			c, err := storetest.Count(db, topic)
			if err != nil || c.Acked != 1 || c.Died != 0 || c.Dead != 0 {
				t.Errorf("counted are %+v, %v", c, err)
			}
		})
	}
}

// nacksCancelled rejects a message that is to be cancelled.
func nacksCancelled(d *subscribers.Delivery) error {
	out, err := d.Nack(context.Background(), 0, "stopped")
	if err == nil && (!out.Cancelled || out.State != 0) {
		panic(fmt.Sprintf("it is %+v", out))
	}
	return err
}

// Where the worker is told of nothing, it hears of it when it extends the lease.
func TestCancelIsHeardByExtension(t *testing.T) {
	t.Parallel()
	db := hourly(t)
	began, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		if err := d.Extend(ctx, time.Hour); err != nil {
			return err
		}
		began <- struct{}{}
		<-proceed
		ended <- d.Extend(ctx, time.Hour)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "the message is handled", began)
	arrived(t, db)
	storetest.Must(t, db.Client().Del(t.Context(), db.Keys().Workers()).Err())
	stops(t, db, "a")
	close(proceed)
	for _, what := range []string{"the extension fails", "the context ends"} {
		if err := storetest.Receive(t, what, ended); !errors.Is(err, store.ErrCancelled) || errors.Is(err, notify.ErrLeaseLost) {
			t.Errorf("%s with %v", what, err)
		}
	}
	isGone(t, db, "a")
}

// A message whose handler has returned before it hears of the stop is acknowledged.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	db := hourly(t)
	began, end := keep(t, db, 1)
	storetest.Publish(t, db, body("a"))
	storetest.Receive(t, "the message is handled", began)
	arrived(t, db)
	storetest.Must(t, db.Client().Del(t.Context(), db.Keys().Workers()).Err())
	storetest.Eventually(t, "a hand-over is confirmed", func() bool { return inspect(t, db, "a").By != "" })
	stops(t, db, "a")
	close(end)
	settled(t, db)
	if c, err := storetest.Count(db, topic); err != nil || c.Acked != 1 {
		t.Errorf("counted are %+v, %v", c, err)
	}
}

// The next message of a key begins when the handler of the one that is cancelled has returned, not before.
func TestCancelKeepsTheSeat(t *testing.T) {
	t.Parallel()
	db := hourly(t)
	began, stopped, end := make(chan string, 10), make(chan struct{}), make(chan struct{})
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		if err := d.Extend(ctx, time.Hour); err != nil {
			return err
		}
		began <- d.ID
		if d.ID == "a" {
			<-ctx.Done()
			close(stopped)
			<-end
		}
		return nil
	}, subscribers.HandleOptions{Concurrency: 4})
	arrived(t, db)
	for _, id := range []string{"a", "b"} {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Key: "k"})
	}
	storetest.Receive(t, "the first is handled", began)
	stops(t, db, "a")
	storetest.Receive(t, "its context ends", stopped)
	storetest.Publish(t, db, body("other"))
	if id := storetest.Receive(t, "one is handled", began); id != "other" {
		t.Errorf("%s is handled while the first is", id)
	}
	close(end)
	if id := storetest.Receive(t, "the next is handled", began); id != "b" {
		t.Errorf("%s is handled next", id)
	}
	settled(t, db)
}

// A hand-over is cancelled when its confirmation hears of that.
func TestCancelOfAHandover(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	h := newHand(t, db, "hand")
	storetest.Publish(t, db, body("a"))
	got := h.taken()
	stops(t, db, "a")
	e, err := db.Of(topic).Extend(t.Context(), topic, "w", []store.Lease{got.Lease}, time.Hour)
	if err != nil || len(e.Stopped) != 1 || e.Receipts[0] != got.Receipt {
		t.Fatalf("it is %+v, %v", e, err)
	}
	lost, err := db.Of(topic).Release(t.Context(), topic, reach.Inbox{}, 0, []store.Return{{Lease: got.Lease}})
	if err != nil || len(lost) > 0 {
		t.Errorf("lost are %v, %v", lost, err)
	}
	isGone(t, db, "a")
}

// A worker that pulls hears of it when it extends the lease, and has it cancelled as it settles it in any way but an acknowledgement. One
// that died has it cancelled when its lease ends; the id is free then, and its next message is not to be cancelled.
func TestCancelOfWhatWasPulled(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := subscriberstest.Claimer(t, db)
	for name, settle := range map[string]func(d *subscribers.Delivery) error{
		"released": func(d *subscribers.Delivery) error { return d.Release(t.Context()) },
		"rejected": nacksCancelled,
		"lost": func(d *subscribers.Delivery) error {
			over := redis.Z{Score: 1, Member: record.Member(topic, d.ID)}
			return db.Client().ZAddXX(t.Context(), db.KeysOf(topic).Leased(), over).Err()
		},
	} {
		storetest.Publish(t, db, body("a"))
		d := claimOne(t, c, time.Hour)
		stops(t, db, "a")
		if err := d.Extend(t.Context(), time.Hour); !errors.Is(err, store.ErrCancelled) {
			t.Errorf("%s: it is extended: %v", name, err)
		}
		if until := inspect(t, db, "a").Until; !until.Equal(d.Receipt.Until()) {
			t.Errorf("%s: its lease ends at %v, not %v", name, until, d.Receipt.Until())
		}
		if err := settle(&d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		isGone(t, db, "a")
	}
	storetest.Publish(t, db, body("a"))
	d := claimOne(t, c, time.Hour)
	storetest.Should(t, d.Extend(t.Context(), time.Hour))
}
