package metrics_test

import (
	"context"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// openOutbox opens an outbox in a database.
func openOutbox(t testing.TB, s *notify.Store, url string) *outbox.Outbox {
	t.Helper()
	b, err := outbox.New(s, outbox.Options{Address: database.Address{URL: url}})
	storetest.Must(t, err)
	t.Cleanup(b.Close)
	return b
}

// What waits in an outbox and what was refused is shown of each, and what was relayed.
func TestOutbox(t *testing.T) {
	server, url := databasetest.Server(t)
	_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
	storetest.Must(t, err)
	s := storetest.Open(t)
	b, other := openOutbox(t, s, url), openOutbox(t, s, "postgres://nobody@127.0.0.1:1/none")
	m := newMetrics(t, s, metrics.Options{})
	m.ShowOutbox(b)
	m.ShowOutbox(other)
	series := func(name string, of *outbox.Outbox) string {
		return "bellhop_outbox_" + name + `{outbox="` + of.Address() + `"}`
	}
	databasetest.Exec(t, url, "SELECT bellhop.publish('mail', id => 'a'), bellhop.publish('mail', id => 'a')")
	databasetest.Exec(t, url, "INSERT INTO bellhop.outbox (topic, id, body, called) VALUES ('a topic', 'x', '', now()); UPDATE bellhop.outbox SET called = now() - interval '2 min'")
	got := scrape(t, m)
	want(t, got, map[string]float64{series("waiting", b): 3, series("refused", b): 0, series("relayed_total", b): 0, series("relayed_total", other): 0})
	if oldest := got[series("oldest_seconds", b)]; oldest < 120 {
		t.Errorf("the oldest waits for %v s", oldest)
	}
	if _, is := got[series("waiting", other)]; is {
		t.Error("what a database holds that is away is shown")
	}
	storetest.Run(t, func(ctx context.Context) error {
		b.Term(ctx, carrier.Term{Shard: s.Home()})
		return nil
	})
	storetest.Eventually(t, "all is relayed", func() bool {
		return b.Stats().Relayed == 2 && b.Stats().Refused == 1 && scrape(t, m)[series("waiting", b)] == 0
	})
	want(t, scrape(t, m), map[string]float64{series("oldest_seconds", b): 0, series("refused", b): 1, series("relayed_total", b): 2, series("kept_total", b): 1, series("failures_total", b): 0})
	server.Stop()
	storetest.Eventually(t, "a failure is counted", func() bool { return scrape(t, m)[series("failures_total", b)] > 0 })
	storetest.Must(t, server.Restart(t.Context()))
	storetest.Eventually(t, "what it holds is shown again", func() bool { return scrape(t, m)[series("refused", b)] == 1 })
}
