package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// A pause that was acknowledged ends at its time and not before, though the master of Redis is replaced and the carrier ends meanwhile.
func TestPauseOverAFailover(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, w *watched){
		"killed": func(t *testing.T, w *watched) {
			w.master.Kill()
			w.replaceLost(t)
		},
		"planned": func(t *testing.T, w *watched) {
			storetest.Must(t, w.ask(t, w.sentinels[0]).Failover(t.Context(), "main").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, 2)
			c := w.config("", 1)
			db := open(t, c)
			carry := func(name string) (stop func()) {
				return carriertest.Run(t, open(t, c), carrier.Options{Name: name, Logger: logger(t)})
			}
			first := carry("first")
			storetest.Eventually(t, "the first carries", func() bool {
				s, err := carrier.Look(t.Context(), db.Home())
				return err == nil && s.Name == "first"
			})
			carry("second")
			handled := make(chan time.Time, 100)
			sub, err := subscribers.NewSubscriber(open(t, c), subscribers.SubscriberOptions{Logger: logger(t)})
			storetest.Must(t, err)
			storetest.Must(t, sub.Handle(orders, func(_ context.Context, d *subscribers.Delivery) error {
				handled <- d.Due.Add(d.Late())
				return nil
			}, subscribers.HandleOptions{}))
			storetest.Run(t, sub.Run)
			end, err := store.PauseUntil(t.Context(), db, orders, store.In(8*time.Second))
			storetest.Must(t, err)
			storetest.Publish(t, db, notify.Message{Topic: orders, ID: "m", Body: []byte("x")})
			replace(t, w)
			first()
			storetest.Receive(t, "a sentinel announces a new master", w.switched)
			storetest.Eventually(t, "the new master has the pause, until it ends", func() bool {
				counts, err := storetest.Count(db, orders)
				return err == nil && (counts.PausedUntil.Equal(end) || !counts.Paused)
			})
			if at := storetest.Receive(t, "the message is handled", handled); at.Before(end) {
				t.Errorf("it is claimed at %v, %v before the pause ends", at, end.Sub(at))
			}
			storetest.Eventually(t, "the second carries", func() bool {
				s, err := carrier.Look(t.Context(), db.Home())
				return err == nil && s.Name == "second"
			})
		})
	}
}
