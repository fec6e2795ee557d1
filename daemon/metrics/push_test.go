package metrics_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// put adds a push of a topic of its name.
func put(t testing.TB, db *notify.Store, name string) {
	t.Helper()
	storetest.Must(t, db.Home().PutPush(t.Context(), store.Push{Name: name, Topics: []string{name}, URL: "https://x.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}}))
}

// Pushes that no daemon sends are shown while no daemon does, but paused ones.
func TestUnsentPushes(t *testing.T) {
	db := storetest.Open(t)
	m := newMetrics(t, db, metrics.Options{Fresh: time.Nanosecond})
	storetest.Publish(t, db, notify.Message{Topic: "crm"})
	put(t, db, "crm")
	put(t, db, "held")
	storetest.Must(t, db.Home().PausePush(t.Context(), "held", "by an operator"))
	shows := func(crm bool) func() bool {
		return func() bool {
			now := scrape(t, m)
			one, shown := now[`bellhop_push_unsent{push="crm"}`]
			_, paused := now[`bellhop_push_unsent{push="held"}`]
			return shown == crm && (one == 1) == crm && !paused
		}
	}
	storetest.Eventually(t, "no daemon sends one", shows(true))
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(store.Event) {}, db.Home().PushersChannel(false)) // as a daemon that may send it
		return nil
	})
	storetest.Eventually(t, "a daemon does", shows(false))
}
