package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A ring of the stream of endings that is lost is repeated by the next beat.
func TestLostRing(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	a := archivetest.Open(t, s, archive.Options{URL: url})
	carriertest.Run(t, s, carrier.Options{OnTerm: a.Term})
	archivetest.Registered(t, s)
	for i := range 2 { // the archive rests again between them
		entry := []any{"member", record.Member(topic, fmt.Sprintf("m%d", i)), "state", "dead", "ended", noon.UnixMilli(), "reason", "lost", "attempts", 1}
		storetest.Must(t, s.Client().Do(t.Context(), append([]any{"XADD", s.KeysOf(topic).Endings(), "*"}, entry...)...).Err())
		wantRows(t, url, i+1)
		wantEmpty(t, s)
	}
}

// When the server of open connections takes no more writes, as after a failover, they are made again, without an error. The server is
// the same here, which lets only new connections write.
func TestServerBecomesReadOnly(t *testing.T) {
	_, url := databasetest.Server(t)
	s := storetest.Open(t)
	log, logged := archivetest.Log()
	a := archivetest.Open(t, s, archive.Options{URL: url, Logger: log})
	runTerm(t, a, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	wantRows(t, url, 1)
	wantEmpty(t, s)
	if _, err := a.Search(t.Context(), archive.Query{}, 1, "", false); err != nil { // so that the other calls have a connection, too
		t.Fatal(err)
	}
	old := backends(t, url)
	for _, statement := range []string{
		"ALTER DATABASE archive SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()",
	} {
		databasetest.Exec(t, url, statement)
	}
	n := 0
	storetest.Eventually(t, "no old connection is left", func() bool {
		if done, err := a.Erase(t.Context(), archive.Query{ID: fmt.Sprintf("m%d", n)}, 1); err != nil || done.Done != 1 {
			t.Fatalf("erased %+v, %v", done, err)
		}
		n++
		mustKill(t, s, n, n+1)
		wantRows(t, url, 1)
		return !slices.ContainsFunc(backends(t, url), func(pid string) bool { return slices.Contains(old, pid) })
	})
	if strings.Contains(logged(), "cannot archive") {
		t.Errorf("it is a fault:\n%s", logged())
	}
}

// backends returns the processes of the server that serve archives.
func backends(t *testing.T, url string) []string {
	t.Helper()
	const ask = "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE application_name = 'bellhop'"
	return strings.Fields(databasetest.Ask(t, url, ask)[0].(string))
}

// Behind a PgBouncer that gives each transaction another session, all calls work: as many archives as there are, over two sessions.
func TestBehindPgBouncer(t *testing.T) {
	server, direct := databasetest.Server(t)
	through := databasetest.Bouncer(t, server, "archive")
	s := storetest.Open(t)
	first := archivetest.Open(t, s, archive.Options{URL: through})
	runTerm(t, first, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 20)
	wantRows(t, direct, 20)
	var all sync.WaitGroup
	for range 4 {
		a := archivetest.Open(t, s, archive.Options{URL: through})
		all.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("m%d", i)
				rows, err := a.Show(t.Context(), topic, id, true)
				if err != nil || len(rows) != 1 || string(rows[0].Body) != "body" {
					t.Errorf("got %d rows of %s, %v", len(rows), id, err)
				}
				page, err := a.Search(t.Context(), archive.Query{State: "dead", From: noon.Add(-time.Hour), Headers: map[string]string{"a": "b"}}, 10, "", false)
				if err != nil || len(page.Rows) != 0 {
					t.Errorf("found %d rows, %v", len(page.Rows), err)
				}
			}
		})
	}
	all.Wait()
	if done, err := first.Erase(t.Context(), archive.Query{}, 100); err != nil || done.Done != 20 {
		t.Errorf("erased %+v, %v", done, err)
	}
}
