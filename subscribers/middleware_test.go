package subscribers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// noting returns middleware that sends its name before and after the handler.
func noting(to chan<- string, name string) func(subscribers.Handler) subscribers.Handler {
	return func(next subscribers.Handler) subscribers.Handler {
		return func(ctx context.Context, d *subscribers.Delivery) error {
			to <- name + " begins"
			defer func() { to <- name + " ends" }()
			return next(ctx, d)
		}
	}
}

// The middleware that was used first is the outermost, of every handler: also of
// those that are set later, and of those of JSON, which it calls with the body as it is.
func TestMiddlewareIsCalledInItsOrder(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	sub, err := subscribers.NewSubscriber(store)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	handler := func(context.Context, *subscribers.Delivery) error {
		got <- "handler"
		return nil
	}
	use := func(m ...func(subscribers.Handler) subscribers.Handler) {
		t.Helper()
		if err := sub.Use(m...); err != nil {
			t.Fatal(err)
		}
	}
	if err := sub.Handle("before", handler); err != nil {
		t.Fatal(err)
	}
	use(noting(got, "first"), noting(got, "second"))
	use()
	if err := subscribers.HandleJSON(sub, "after", func(ctx context.Context, d *subscribers.Delivery, _ []int) error { return handler(ctx, d) }); err != nil {
		t.Fatal(err)
	}
	use(noting(got, "third"))
	storetest.Run(t, sub.Run)
	for topic, want := range map[string][]string{
		"before": {"first begins", "second begins", "third begins", "handler", "third ends", "second ends", "first ends"},
		"after":  {"first begins", "second begins", "third begins", "third ends", "second ends", "first ends"},
	} {
		storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte("no JSON")})
		var calls []string
		for range want {
			calls = append(calls, storetest.Receive(t, "the handler of "+topic+" is called", got))
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", topic, diff)
		}
	}
}

// A panic of middleware is an error of the handler: the message is given back, and the subscriber goes on.
func TestPanicOfMiddleware(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	storetest.Set(t, store, topic, notify.SettingsChange{Attempts: new(1)})
	sub, err := subscribers.NewSubscriber(store)
	if err != nil {
		t.Fatal(err)
	}
	died, handled := make(chan subscribers.Death, 1), make(chan string, 1)
	err = sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		handled <- d.ID
		return nil
	}, subscribers.HandleOptions{OnDead: func(d subscribers.Death) { died <- d }})
	if err != nil {
		t.Fatal(err)
	}
	err = sub.Use(func(next subscribers.Handler) subscribers.Handler {
		return func(ctx context.Context, d *subscribers.Delivery) error {
			if d.ID == "bad" {
				panic("no trace")
			}
			return next(ctx, d)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, sub.Run)
	storetest.Publish(t, store, body("bad"))
	if d := storetest.Receive(t, "it dies", died); d.ID != "bad" || !strings.Contains(d.Reason, "panic: no trace") {
		t.Errorf("%s died of %q", d.ID, d.Reason)
	}
	storetest.Publish(t, store, body("good"))
	if id := storetest.Receive(t, "the next one is handled", handled); id != "good" {
		t.Errorf("handled %s", id)
	}
}

func TestUseIsRefused(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	newSubscriber := func() *subscribers.Subscriber {
		sub, err := subscribers.NewSubscriber(store)
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	nothing := func(next subscribers.Handler) subscribers.Handler { return next }
	sub := newSubscriber()
	wantFault(t, sub.Use(nothing, nil), "middleware", "middleware 2: it is nil")
	if err := sub.Use(func(subscribers.Handler) subscribers.Handler { return nil }); err != nil {
		t.Error(err)
	}
	wantFault(t, sub.Run(t.Context()), "middleware", "returned no handler for "+topic)

	sub = newSubscriber()
	ran := make(chan struct{})
	err := sub.Use(func(next subscribers.Handler) subscribers.Handler {
		close(ran)
		return next
	})
	if err != nil {
		t.Error(err)
	}
	storetest.Run(t, sub.Run)
	storetest.Receive(t, "it runs", ran)
	wantFault(t, sub.Use(nothing), "call", "before Run")
}
