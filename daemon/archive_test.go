package daemon_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A daemon whose archive is away starts, carries and ends as any other, and archives later.
// Its password is in no log.
func TestRunArchives(t *testing.T) {
	server, raw := databasetest.Server(t)
	server.Stop()
	file := filepath.Join(t.TempDir(), "password")
	storetest.Must(t, os.WriteFile(file, []byte(postgres.Password+"\n"), 0o600))
	u, err := url.Parse(raw)
	storetest.Must(t, err)
	u.User = url.UserPassword(postgres.User, "outdated")
	c := config(t, storetest.URL())
	c.ArchiveURL, c.ArchivePasswordFile, c.LogLevel = daemon.DatabaseURL(u.String()), file, -4
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log storetest.Log
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
	s := storetest.At(t, string(c.RedisURL), c.Prefix)
	elected(t, s)
	log.Await(t, "cannot archive what ended")
	storetest.Publish(t, s, notify.Message{Topic: "orders", ID: "4711", Delay: time.Millisecond, TTL: time.Hour})
	var ds []subscribers.Delivery
	storetest.Eventually(t, "the carrier carries", func() bool {
		ds, err = subscriberstest.Claimer(t, s).Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		return err == nil && len(ds) == 1
	})
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "no such tenant")))
	storetest.Must(t, server.Restart(t.Context()))
	a := archivetest.Open(t, s, c.Archive(nil))
	storetest.Eventually(t, "it is archived", func() bool {
		page, err := a.Search(t.Context(), archive.Query{Reason: "no such tenant"}, 1, "", false)
		return err == nil && len(page.Rows) == 1 && page.Rows[0].ID == "4711"
	})
	server.Stop() // it ends in good order without a database, too
	stop()
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	for _, secret := range []string{"outdated", "correct", "battery"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("a password is in the log:\n%s", &log)
		}
	}
	if n := strings.Count(log.String(), "cannot archive what ended"); n != 1 {
		t.Errorf("an outage is logged %d times:\n%s", n, &log)
	}
}

// Without an archive nothing of it is in Redis, and no series in the metrics.
func TestRunWithoutArchive(t *testing.T) {
	c := config(t, storetest.URL())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	var log storetest.Log
	go func() { ended <- daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &log)}) }()
	s := storetest.At(t, string(c.RedisURL), c.Prefix)
	elected(t, s)
	storetest.Publish(t, s, notify.Message{Topic: "orders", ID: "4711"})
	ds, err := subscriberstest.Claimer(t, s).Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "no such tenant")))
	if n, err := s.Client().Exists(t.Context(), s.KeysOf("orders").Endings(), s.KeysOf("orders").Extras()).Result(); n != 0 || err != nil {
		t.Errorf("%d keys of an archive are there, %v", n, err)
	}
	stop()
	if err := storetest.Receive(t, "the end", ended); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if strings.Contains(log.String(), "archive") {
		t.Errorf("the log speaks of an archive:\n%s", &log)
	}
}
