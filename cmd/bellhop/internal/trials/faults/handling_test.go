package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The record of a message that was handed over has the time of that or, if it was confirmed before its handler began, of the confirmation.
func TestRecordOfAHandover(t *testing.T) {
	store, err := notify.Open(notify.Config{URL: storetest.Server(t).URL()})
	storetest.Must(t, err)
	t.Cleanup(func() { store.Close() })
	storetest.Beat(t, store)
	claimer, sub := subscriberstest.Claimer(t, store), subscriberstest.Subscriber(t, store)
	got := make(chan subscribers.Delivery, 2)
	storetest.Must(t, sub.Handle("handled", func(_ context.Context, d *subscribers.Delivery) error {
		got <- *d
		return nil
	}))
	storetest.Run(t, claimer.Run)
	storetest.Run(t, sub.Run)
	go func() {
		all, _ := claimer.Claim(t.Context(), "claimed", subscribers.ClaimOptions{Wait: time.Minute})
		for _, d := range all {
			got <- d
		}
	}()
	for _, topic := range []string{"handled", "claimed"} { // what a claimer gets has the receipt of its confirmation
		storetest.Eventually(t, "somebody waits with a free hand", func() bool {
			n, err := store.Client().ZCard(t.Context(), store.KeysOf(topic).Waiting(topic)).Result()
			return err == nil && n == 1
		})
		storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("handed over")})
		d := storetest.Receive(t, "the message", got)
		r, made := handling(&d), d.Due.Add(d.Late()).UnixMilli()
		if claimed := r.Receipt/1000 - r.Lease; claimed < made || claimed > time.Now().UnixMilli() {
			t.Errorf("it was handed over at %d, and its record says %d: %v", made, claimed, r)
		}
	}
}
