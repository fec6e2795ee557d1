package archive_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// TestMain is also the other process of TestProcesses.
func TestMain(m *testing.M) {
	if os.Getenv(otherProcess) != "" {
		storetest.Patient()
		runOther()
		return
	}
	storetest.MainWaiting(m)
}

const topic = "order.timeout"

// noon is when messages of tests ended, in the middle of a month.
var noon = time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)

// open returns an archive in a database of the test's own, and the URL of that.
func open(t testing.TB) (a *archive.Archive, url string) {
	t.Helper()
	url = databasetest.Database(t)
	return archivetest.Open(t, storetest.Open(t), archive.Options{URL: url}), url
}

// dead returns message n of the topic, which died n seconds before noon.
func dead(n int) store.Ending {
	at := noon.Add(-time.Duration(n) * time.Second)
	return store.Ending{
		Entry: fmt.Sprintf("%d-%d", at.UnixMilli(), n), Member: record.Member(topic, fmt.Sprintf("m%d", n)), State: "dead",
		Ended: at, Reason: "no answer", Attempts: 1, Record: notify.Record{Published: at.Add(-time.Hour), FirstDue: at.Add(-time.Minute), Body: fmt.Appendf(nil, "body %d", n)},
	}
}

// write stores what ended in a store with an id.
func write(t testing.TB, a *archive.Archive, storeID string, ended ...store.Ending) {
	t.Helper()
	storetest.Must(t, a.Write(t.Context(), storeID, ended))
}

// search returns all rows that a query selects, read by pages of one limit.
func search(t testing.TB, a *archive.Archive, q archive.Query, limit int) (rows []archive.Row) {
	t.Helper()
	for cursor := ""; ; {
		page, err := a.Search(t.Context(), q, limit, cursor, true)
		storetest.Must(t, err)
		if len(page.Rows) > limit || page.Cursor != "" && len(page.Rows) != limit {
			t.Fatalf("a page of %d has %d rows, and a cursor %q", limit, len(page.Rows), page.Cursor)
		}
		rows = append(rows, page.Rows...)
		if cursor = page.Cursor; cursor == "" {
			return rows
		}
	}
}

// ids returns the ids of rows.
func ids(rows []archive.Row) (all []string) {
	for _, row := range rows {
		all = append(all, row.ID)
	}
	return all
}
