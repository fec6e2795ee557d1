package subscribers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A handler settles its message early. The subscriber settles it no second time, whatever the handler returns, and logs no lost lease.
func TestHandlerSettlesItsDelivery(t *testing.T) {
	t.Parallel()
	fail := errors.New("no stock")
	for name, test := range map[string]struct {
		settle func(context.Context, *subscribers.Delivery) error
		want   notify.Counts
		died   string
	}{
		"ack": {settle: func(ctx context.Context, d *subscribers.Delivery) error { return d.Ack(ctx) }},
		"ack of a copy": {settle: func(ctx context.Context, d *subscribers.Delivery) error {
			other := *d
			return other.Ack(ctx)
		}},
		"nack": {settle: func(ctx context.Context, d *subscribers.Delivery) error {
			out, err := d.Nack(ctx, time.Hour, "later")
			if out.State != notify.Scheduled || out.Attempts != 1 {
				return errors.Join(err, errors.New("it is not scheduled"))
			}
			return err
		}, want: notify.Counts{Scheduled: 1}},
		"bury": {settle: func(ctx context.Context, d *subscribers.Delivery) error {
			_, err := d.Bury(ctx, "no such order")
			return err
		}, want: notify.Counts{Dead: 1}, died: "no such order"},
	} {
		for verdict, returns := range map[string]error{"nil": nil, "an error": fail, "NotNow": subscribers.NotNow(fail, 0), "ErrStopping": subscribers.ErrStopping} {
			t.Run(name+", returns "+verdict, func(t *testing.T) {
				db := storetest.Open(t)
				log, done, died := new(journal), make(chan error, 2), make(chan subscribers.Death, 2)
				stop := handleAs(t, db, subscribers.SubscriberOptions{Logger: slog.New(slog.NewTextHandler(log, nil))}, func(ctx context.Context, d *subscribers.Delivery) error {
					if d.ID == "next" {
						done <- nil
						return nil
					}
					err := test.settle(ctx, d)
					if again := d.Ack(ctx); !errors.Is(again, notify.ErrLeaseLost) {
						t.Errorf("settled again: %v", again)
					}
					storetest.Fails(t, "extended", d.Extend(ctx, time.Minute), notify.ErrLeaseLost)
					done <- errors.Join(err, ctx.Err())
					return returns
				}, subscribers.HandleOptions{OnDead: func(d subscribers.Death) { died <- d }})
				storetest.Publish(t, db, body("a"), body("next"))
				for range 2 {
					storetest.Should(t, storetest.Receive(t, "it is settled", done))
				}
				stop()
				want := test.want
				want.Topic = topic
				if got := counts(t, db); got.Scheduled != want.Scheduled || got.Ready+got.Leased != 0 || got.Dead != want.Dead {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if test.died != "" {
					if d := storetest.Receive(t, "OnDead is called", died); d.ID != "a" || d.Reason != test.died {
						t.Errorf("%s died of %q", d.ID, d.Reason)
					}
				}
				for line := range strings.Lines(log.String()) {
					late := strings.Contains(line, "no answer within") // of a machine that stands still
					if !late && (strings.Contains(line, "lease") || strings.Contains(line, "cannot")) {
						t.Error(line)
					}
				}
			})
		}
	}
}

// A handler that releases its message as due now has those first that are overdue, and no attempt is used up.
func TestHandlerReleasesBehindOthers(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	got, published := make(chan string, 10), make(chan time.Time)
	released := false
	stop := handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		storetest.Is(t, "the attempt of "+d.ID, d.Attempt, 1)
		if got <- d.ID; released {
			return nil
		}
		released = true
		due := <-published
		storetest.Eventually(t, "the other is overdue", func() bool {
			now, err := db.Now(ctx)
			return err == nil && now.Sub(due) > time.Millisecond
		})
		d.Due = time.Time{}
		return d.Release(ctx)
	}, subscribers.HandleOptions{Concurrency: 1})
	storetest.Publish(t, db, body("first"))
	wantHandled(t, got, "first")
	other, err := storetest.Publisher(t, db).Publish(t.Context(), body("other"))
	storetest.Must(t, err)
	published <- other.Due
	wantHandled(t, got, "other")
	wantHandled(t, got, "first")
	stop()
}

// A handler whose calls end by their context does not lose the lease: a call that has begun is carried out.
func TestHandlerCutsExtensionsOff(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	done := make(chan error, 1)
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		for i := range 500 {
			short, cancel := context.WithTimeout(ctx, time.Duration(100+i)*time.Microsecond)
			if err := d.Extend(short, time.Minute); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		done <- d.Ack(ctx)
		return nil
	})
	storetest.Publish(t, db, body("a"))
	storetest.Should(t, storetest.Receive(t, "it is settled", done))
	settled(t, db)
	storetest.Empty(t, db)
}

// Where the lease was lost the handler learns that from its call, and by its context; what took the message keeps it.
func TestHandlerSettlesWithALostLease(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	c := subscriberstest.Claimer(t, db)
	done := make(chan error, 1)
	var other subscribers.Delivery
	handle(t, db, func(ctx context.Context, d *subscribers.Delivery) error {
		if err := c.Delivery(topic, d.ID, d.Receipt).Release(ctx); err != nil { // as if it were given back behind its back
			t.Error(err)
		}
		ds, err := c.Claim(ctx, topic, subscribers.ClaimOptions{Lease: time.Minute})
		if err != nil || len(ds) != 1 {
			t.Errorf("claimed %v, %v", ds, err)
			return nil
		}
		other = ds[0]
		err = d.Ack(ctx)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), notify.ErrLeaseLost) {
			t.Errorf("the context ended because of %v", context.Cause(ctx))
		}
		done <- err
		return nil
	})
	storetest.Publish(t, db, body("a"))
	storetest.Fails(t, "settled", storetest.Receive(t, "it is settled", done), notify.ErrLeaseLost)
	if err := other.Ack(t.Context()); err != nil {
		t.Errorf("the one that took it: %v", err)
	}
	storetest.Empty(t, db)
}

// What a handler left running settles nothing when the handler has returned.
func TestDeliveryBehindItsHandler(t *testing.T) {
	t.Parallel()
	db := storetest.Unhurried(storetest.Open(t))
	kept := make(chan *subscribers.Delivery, 1)
	handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
		kept <- d
		return nil
	})
	storetest.Publish(t, db, body("a"))
	d := storetest.Receive(t, "it is handled", kept)
	settled(t, db)
	for name, err := range map[string]error{"ack": d.Ack(t.Context()), "release": d.Release(t.Context()), "extend": d.Extend(t.Context(), 0)} {
		if !errors.Is(err, notify.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A delivery that no claimer made settles nothing, and says so.
func TestDeliveryMadeByHand(t *testing.T) {
	t.Parallel()
	d := subscribers.Delivery{Topic: topic, ID: "a", Receipt: 1}
	_, nack := d.Nack(t.Context(), 0, "")
	_, bury := d.Bury(t.Context(), "")
	for _, err := range []error{d.Ack(t.Context()), nack, bury, d.Release(t.Context()), d.Extend(t.Context(), 0)} {
		wantFault(t, err, "delivery", "made by hand")
	}
}

// Every constructor takes a store and options once, and reports what is wrong with them by name.
func TestConstructorsRefuseWrongOptions(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	newSubscriber := func(s *notify.Store, o ...subscribers.SubscriberOptions) error {
		_, err := subscribers.NewSubscriber(s, o...)
		return err
	}
	newClaimer := func(s *notify.Store, o ...subscribers.ClaimerOptions) error {
		_, err := subscribers.NewClaimer(s, o...)
		return err
	}
	newListener := func(s *notify.Store, o ...subscribers.ListenerOptions) error {
		_, err := subscribers.NewListener(s, o...)
		return err
	}
	for field, errs := range map[string][]error{
		"store": {newSubscriber(nil), newClaimer(nil), newListener(nil)},
		"options": {
			newSubscriber(db, make([]subscribers.SubscriberOptions, 2)...),
			newClaimer(db, make([]subscribers.ClaimerOptions, 2)...),
			newListener(db, make([]subscribers.ListenerOptions, 2)...),
		},
		"grace": {newSubscriber(db, subscribers.SubscriberOptions{Grace: -1}), newListener(db, subscribers.ListenerOptions{Grace: -1})},
	} {
		for _, err := range errs {
			wantFault(t, err, field, field)
		}
	}
	for _, err := range []error{newSubscriber(db), newClaimer(db), newListener(db)} {
		storetest.Should(t, err)
	}
}
