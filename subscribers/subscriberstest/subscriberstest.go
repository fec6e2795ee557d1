// Package subscriberstest makes what receives messages in tests, and ends the test if that fails.
package subscriberstest

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// Subscriber returns a subscriber of a store.
func Subscriber(t testing.TB, s *notify.Store, options ...subscribers.SubscriberOptions) *subscribers.Subscriber {
	t.Helper()
	sub, err := subscribers.NewSubscriber(s, options...)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// Claimer returns a claimer on a store.
func Claimer(t testing.TB, s *notify.Store, options ...subscribers.ClaimerOptions) *subscribers.Claimer {
	t.Helper()
	c, err := subscribers.NewClaimer(s, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Listener returns a listener to a store.
func Listener(t testing.TB, s *notify.Store, options ...subscribers.ListenerOptions) *subscribers.Listener {
	t.Helper()
	l, err := subscribers.NewListener(s, options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
