package subscribers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
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
	sub := subscriberstest.Subscriber(t, store)
	got := make(chan string, 100)
	handler := func(context.Context, *subscribers.Delivery) error {
		got <- "handler"
		return nil
	}
	use := func(m ...func(subscribers.Handler) subscribers.Handler) {
		t.Helper()
		storetest.Must(t, sub.Use(m...))
	}
	storetest.Must(t, sub.Handle("before", handler))
	use(noting(got, "first"), noting(got, "second"))
	use()
	storetest.Must(t, subscribers.HandleJSON(sub, "after", func(ctx context.Context, d *subscribers.Delivery, _ []int) error { return handler(ctx, d) }))
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
	sub := subscriberstest.Subscriber(t, store)
	died, handled := make(chan subscribers.Death, 1), make(chan string, 1)
	err := sub.Handle(topic, idsInto(handled), subscribers.HandleOptions{OnDead: func(d subscribers.Death) { died <- d }})
	storetest.Must(t, err)
	storetest.Must(t, sub.Use(func(next subscribers.Handler) subscribers.Handler {
		return func(ctx context.Context, d *subscribers.Delivery) error {
			if d.ID == "bad" {
				panic("no trace")
			}
			return next(ctx, d)
		}
	}))
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
		sub := subscriberstest.Subscriber(t, store)
		storetest.Must(t, sub.Handle(topic, succeeds))
		return sub
	}
	nothing := func(next subscribers.Handler) subscribers.Handler { return next }
	sub := newSubscriber()
	wantFault(t, sub.Use(nothing, nil), "middleware", "middleware 2: it is nil")
	storetest.Should(t, sub.Use(func(subscribers.Handler) subscribers.Handler { return nil }))
	wantFault(t, sub.Run(t.Context()), "middleware", "returned no handler for "+topic)

	sub = newSubscriber()
	ran := make(chan struct{})
	storetest.Should(t, sub.Use(func(next subscribers.Handler) subscribers.Handler {
		close(ran)
		return next
	}))
	storetest.Run(t, sub.Run)
	storetest.Receive(t, "it runs", ran)
	wantFault(t, sub.Use(nothing), "call", "before Run")
}
