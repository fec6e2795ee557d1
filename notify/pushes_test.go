package notify_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// pushAll has messages and broadcasts of patterns pushed to a URL, and makes the other calls about pushes.
func pushAll(t *testing.T, db *notify.Store, pub client) {
	t.Helper()
	ctx, home := t.Context(), db.Home()
	pushed := make(chan string, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { pushed <- r.Header.Get("Bellhop-Topic") }))
	defer endpoint.Close()
	stopCarrying := carriertest.Run(t, db, carrier.Options{Lease: carrier.MaxLease})
	p, err := push.New(db, push.Options{Allow: "127.0.0.1"})
	storetest.Must(t, err)
	stopPushing := storetest.Run(t, p.Run)
	for name, of := range map[string]store.Push{"crm": {Topics: []string{"order.*"}}, "news": {Topics: []string{"prices.>"}, Broadcasts: true}} {
		of.Name, of.URL, of.Secrets = name, endpoint.URL, []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
		storetest.Must(t, home.PutPush(ctx, of))
	}
	storetest.Eventually(t, "the push of broadcasts listens", func() bool {
		all, err := pub.Listeners(ctx)
		return err == nil && len(all) == 1
	})
	publish(t, pub, notify.Message{Topic: "order.paid"})
	publish(t, pub, notify.Message{Topic: "prices.gold", Broadcast: true})
	for range 2 {
		storetest.Receive(t, "a request", pushed)
	}
	all, err := home.Pushes(ctx)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, one := range all {
		storetest.Eventually(t, one.Name+" has nothing in flight", func() bool {
			n, err := store.PushLeased(ctx, db, &one)
			return err == nil && *n == 0
		})
		if tested := p.Test(ctx, one); !tested.OK {
			t.Errorf("%s: %+v", one.Name, tested)
		}
		for what, err := range map[string]error{
			"fail": home.ChangePush(ctx, one.Name, func(p *store.Push) (*store.Push, error) {
				p.Failing = &store.PushFailure{Since: time.Now(), Answer: "no"}
				return p, nil
			}),
			"try": home.PushTried(ctx, one.Name, time.Minute, "no"), "pause": home.PausePush(ctx, one.Name, "by hand"), "resume": home.PausePush(ctx, one.Name, ""),
		} {
			if err != nil {
				t.Errorf("%s %s: %v", what, one.Name, err)
			}
		}
	}
	stopPushing()
	for _, one := range all {
		storetest.Should(t, home.RemovePush(ctx, one.Name))
	}
	stopCarrying()
}
