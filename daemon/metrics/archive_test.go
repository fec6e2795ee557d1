package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// What waits for the archive is shown, and what was stored there.
func TestArchive(t *testing.T) {
	server, url := databasetest.Server(t)
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: url, Room: 77})
	m := newMetrics(t, s, metrics.Options{})
	m.ShowArchive(a)
	want(t, scrape(t, m), map[string]float64{"bellhop_archive_up": 1, "bellhop_archive_backlog": 0, "bellhop_archive_oldest_seconds": 0, "bellhop_archive_stored_total": 0})
	server.Stop()
	storetest.Run(t, func(ctx context.Context) error {
		a.Term(ctx, carrier.Term{Shard: s.Of(topic)})
		return nil
	})
	storetest.Eventually(t, "the database is away", func() bool { return a.Stats().Away })
	publish(t, s, topic, 3, 0)
	ds, err := subscriberstest.Claimer(t, s).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 3, Lease: time.Hour})
	if err != nil || len(ds) != 3 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	for _, d := range ds {
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "for a test")))
	}
	storetest.Eventually(t, "time passes", func() bool { return scrape(t, m)["bellhop_archive_oldest_seconds"] > 0 })
	got := scrape(t, m)
	want(t, got, map[string]float64{"bellhop_archive_up": 0, "bellhop_archive_backlog": 3, "bellhop_archive_room": 77, "bellhop_archive_unarchived_total": 0})
	if got["bellhop_archive_failed_total"] < 1 {
		t.Errorf("failed: %v", got["bellhop_archive_failed_total"])
	}
	storetest.Must(t, server.Restart(t.Context()))
	storetest.Eventually(t, "all is stored", func() bool { return a.Stats().Stored == 3 && scrape(t, m)["bellhop_archive_backlog"] == 0 })
	want(t, scrape(t, m), map[string]float64{"bellhop_archive_up": 1, "bellhop_archive_stored_total": 3, "bellhop_archive_oldest_seconds": 0})
}
