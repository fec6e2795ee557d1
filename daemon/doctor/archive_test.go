package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// archived returns the finding about the archive, with a configuration of it.
func (w *ward) archived(url string) string {
	w.t.Helper()
	var found string
	o := doctor.Options{Quick: true, Archive: archive.Options{URL: url, Room: 10}}
	_, err := doctor.Run(w.t.Context(), w.config, o, func(f doctor.Finding) {
		if f.Check == "archive" {
			found = strings.Join([]string{f.Verdict.String(), f.Found, f.Remedy}, " | ")
		}
	})
	storetest.Must(w.t, err)
	return found
}

func (w *ward) wantArchived(url, want string) {
	w.t.Helper()
	storetest.Same(w.t, "the archive", want, seconds.ReplaceAllString(w.archived(url), "<1m"))
}

func TestArchive(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	server, url := databasetest.Server(t)
	shown := database.Redact(url)
	const start = "start one with BELLHOP_ARCHIVE_URL: bellhop serve. Its log says what hinders it"
	w.wantArchived("", "ok | off | ")
	w.wantArchived(url, "warn | "+shown+" is up, and no daemon archives there: 0 wait | "+start)

	a := archivetest.Open(t, w.store, archive.Options{URL: url, Room: 10})
	stop := storetest.Run(t, func(ctx context.Context) error {
		a.Term(ctx, carrier.Term{Shard: w.store.Of("orders")})
		return nil
	})
	storetest.Eventually(t, "an archive is registered", func() bool {
		behind, err := a.Backlog(t.Context())
		return err == nil && behind.Open
	})
	w.dies("orders", 1)
	storetest.Eventually(t, "it is archived", func() bool {
		behind, err := a.Backlog(t.Context())
		return err == nil && behind.Entries == 0 && a.Stats().Stored == 1
	})
	stop()
	w.wantArchived(url, "ok | "+shown+" is up: 0 wait | ")

	w.dies(storetest.Beside(w.store, "orders", "mail"), 2)
	server.Stop()
	w.wantArchived("", "warn | off here, but the store has one: 2 wait, the oldest for <1m | set BELLHOP_ARCHIVE_URL; if there is to be none any more: bellhop archive close")
	got := w.archived(url)
	if !strings.HasPrefix(got, "fail | away: archive at "+shown+": ") || !strings.HasSuffix(got, " | start PostgreSQL there (systemctl start postgresql), or name another in its URL: Redis keeps the last 10 for it") ||
		strings.Contains(got, "correct") {
		t.Errorf("a database that is away: %s", got)
	}
	if got := w.archived("mysql://u:secret@h"); !strings.HasPrefix(got, "fail | invalid url: ") || strings.Contains(got, "secret") {
		t.Errorf("a wrong URL: %s", got)
	}
}
