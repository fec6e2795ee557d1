package receivers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/receivers"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// listen listens under a name until the test ends, or stop is called.
func listen(t *testing.T, db *notify.Store, name, pattern string, handle func(context.Context, *subscribers.Broadcast) error) (stop func()) {
	t.Helper()
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Name: "worker-of-" + name})
	stop = storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, pattern, handle, subscribers.ListenOptions{Name: name, From: subscribers.FromNow()})
	})
	storetest.Eventually(t, name+" is registered", func() bool {
		all, err := storetest.Inspector(t, db).Listeners(t.Context(), func(one, _ string) bool { return one == name })
		return err == nil && len(all) == 1 && all[0].Active
	})
	return stop
}

// Each named listener that gets a broadcast is listed: one that has it, one that handled it, and one that is away.
func TestLook(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c, err := carrier.New(db, carrier.Options{})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	held := make(chan struct{})
	holds := func(_ context.Context, b *subscribers.Broadcast) error {
		if b.ID != "sale" {
			return nil
		}
		<-held
		return nil
	}
	handles := func(context.Context, *subscribers.Broadcast) error { return nil }
	listen(t, db, "holds", "prices.*", holds)
	listen(t, db, "handles", ">", handles)
	listen(t, db, "other", "orders.>", handles)
	listen(t, db, "away", "prices.gold", handles)()

	t.Cleanup(func() { close(held) })

	future := time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC)
	storetest.Publish(t, db, notify.Message{Topic: "prices.gold", ID: "later", Broadcast: true, Due: future}, notify.Message{Topic: "prices.gold", ID: "one"})
	got, err := receivers.Look(t.Context(), db, "prices.gold", "later")
	if diff := cmp.Diff(receivers.Report{Topic: "prices.gold", ID: "later", State: "scheduled", Due: future, Listeners: []receivers.Receiver{}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}

	// More than one call looks at.
	storetest.Fill(t, db, 500, func(int) notify.Message { return notify.Message{Topic: "prices.gold", Broadcast: true} })
	storetest.Publish(t, db, notify.Message{Topic: "prices.gold", ID: "sale", Broadcast: true})
	want := "away waiting, handles done, holds leased by worker-of-holds"
	storetest.Eventually(t, want, func() bool {
		got, err = receivers.Look(t.Context(), db, "prices.gold", "sale")
		var all []string
		for _, l := range got.Listeners {
			one := l.Name + " " + l.State
			if l.Worker != "" && !l.Until.IsZero() {
				one += " by " + l.Worker
			}
			all = append(all, one)
		}
		return err == nil && got.State == "sent" && !got.Sent.Before(got.Due) && got.Position > 0 && strings.Join(all, ", ") == want
	})
	if of := got.Sent.Sub(got.Due); of > storetest.Deadline {
		t.Errorf("it was due at %v and sent at %v", got.Due, got.Sent)
	}
	listen(t, db, "late", "prices.gold", handles)
	if got, err := receivers.Look(t.Context(), db, "prices.gold", "sale"); err != nil || len(got.Listeners) != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, none := range []string{"none", "one"} {
		if _, err := receivers.Look(t.Context(), db, "prices.gold", none); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("%s: %v", none, err)
		}
	}
	for _, bad := range []struct{ topic, id, field string }{{"no!topic", "a", "topic"}, {"prices", "a b", "id"}} {
		var fault *notify.Fault
		if _, err := receivers.Look(t.Context(), db, bad.topic, bad.id); !errors.As(err, &fault) || fault.Field != bad.field {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
