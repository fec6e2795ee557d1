package subscribers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

type order struct {
	Number int
	Names  []string
}

// handleJSON runs a subscriber with one handler of orders until the test ends.
func handleJSON(t *testing.T, store *notify.Store, h func(context.Context, *subscribers.Delivery, order) error, o ...subscribers.HandleOptions) {
	t.Helper()
	sub := subscriberstest.Subscriber(t, store)
	storetest.Must(t, subscribers.HandleJSON(sub, topic, h, o...))
	storetest.Run(t, sub.Run)
}

func TestHandleJSONDecodesTheBody(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	got := make(chan order, 1)
	handleJSON(t, store, func(_ context.Context, d *subscribers.Delivery, o order) error {
		if d.ID != "a" {
			t.Errorf("got the message %s", d.ID)
		}
		got <- o
		return nil
	})
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte(`{"number":7,"names":["x"],"unknown":{}}` + "\n")})
	storetest.Same(t, "the order", order{7, []string{"x"}}, storetest.Receive(t, "it is handled", got))
	settled(t, store)
	storetest.Empty(t, store)
}

// badBodies are no JSON of an order, each with a part of the reason.
var badBodies = map[string]string{
	"":                        "unexpected end",
	"{":                       "unexpected end",
	"number 7":                "invalid character",
	`{"number":7} {}`:         "after top-level value",
	`{"number":"7"}`:          "cannot unmarshal string",
	`{"names":["x",{}]}`:      "cannot unmarshal object",
	`[7]`:                     "cannot unmarshal array",
	"{\"number\":7}\x00":      "after top-level value",
	`{"number":70000000000e9`: "unexpected end",
}

func TestHandleJSONBuriesABadBodyWithTheReason(t *testing.T) {
	t.Parallel()
	for body, want := range badBodies {
		t.Run(body, func(t *testing.T) {
			store := storetest.Open(t)
			died := make(chan subscribers.Death, 1)
			handleJSON(t, store, func(_ context.Context, _ *subscribers.Delivery, o order) error {
				t.Errorf("it was handled as %+v", o)
				return nil
			}, subscribers.HandleOptions{OnDead: func(d subscribers.Death) { died <- d }})
			storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte(body)})
			d := storetest.Receive(t, "it is buried", died)
			if !strings.HasPrefix(d.Reason, "body is no JSON of subscribers_test.order: ") || !strings.Contains(d.Reason, want) || d.Attempts != 1 {
				t.Errorf("it died of %q in attempt %d, want %q", d.Reason, d.Attempts, want)
			}
		})
	}
}

// A bad body may be acknowledged, and tried again, as the option returns.
func TestOnBadJSON(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	var calls []int
	handleJSON(t, store, func(context.Context, *subscribers.Delivery, order) error {
		t.Error("it was handled")
		return nil
	}, subscribers.HandleOptions{OnBadJSON: func(_ context.Context, d *subscribers.Delivery, err error) error {
		if err == nil || string(d.Body) != "{" {
			t.Errorf("got %v of the body %q", err, d.Body)
		}
		if calls = append(calls, d.Attempt); d.Attempt == 1 {
			return subscribers.RetryAfter(err, 0)
		}
		return nil
	}})
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte("{")})
	settled(t, store)
	storetest.Same(t, "attempts", []int{1, 2}, calls)
	if dead := counts(t, store).Dead; dead != 0 {
		t.Errorf("%d died", dead)
	}
}

// An error of the handler is no bad body: the message is tried again.
func TestHandleJSONFails(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	attempts := make(chan int, 2)
	handleJSON(t, store, func(_ context.Context, d *subscribers.Delivery, _ order) error {
		if attempts <- d.Attempt; d.Attempt == 1 {
			return subscribers.RetryAfter(errors.New("no stock"), 0)
		}
		return nil
	})
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: []byte("{}")})
	settled(t, store)
	if len(attempts) != 2 {
		t.Errorf("%d attempts", len(attempts))
	}
}
