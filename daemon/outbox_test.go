package daemon_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A daemon relays each of its outboxes.
func TestOutboxes(t *testing.T) {
	c := config(t, storetest.URL())
	for range 2 {
		url := databasetest.Database(t)
		_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
		storetest.Must(t, err)
		c.OutboxURL += daemon.DatabaseURLs(" " + url)
		databasetest.Exec(t, url, "SELECT bellhop.publish('mail', 'x')")
	}
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &storetest.Log{})})
	})
	s, n := storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: c.Prefix, Shards: c.Shards}), 0
	claimer := subscriberstest.Claimer(t, s)
	storetest.Eventually(t, "both are relayed", func() bool {
		ds, err := claimer.Claim(t.Context(), "mail", subscribers.ClaimOptions{Max: 2, Lease: time.Hour})
		storetest.Must(t, err)
		n += len(ds)
		return n == 2
	})
}

// Of each outbox there are metrics.
func TestOutboxesAreScraped(t *testing.T) {
	url := databasetest.Database(t)
	_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
	storetest.Must(t, err)
	scrape := served(t, func(c *daemon.Config) { c.OutboxURL = daemon.DatabaseURLs(url) })
	_, text := scrape("127.0.0.1", "")
	want := `bellhop_outbox_waiting{outbox="` + database.Redact(url) + `"} 0`
	if !strings.Contains(text, want) {
		t.Errorf("%s is not among the metrics:\n%s", want, text)
	}
}
