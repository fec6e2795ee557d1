package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The page of the archive finds why messages of a tenant died, requeues them, and sees
// them succeed.
func TestPageOfTheArchive(t *testing.T) {
	t.Parallel()
	const page = "../../daemon/archive/README.md"
	s := newShell(t, "BELLHOP_ARCHIVE_URL="+databasetest.Database(t))
	dir := t.TempDir()
	storetest.Must(t, os.Symlink(self(t), filepath.Join(dir, "bellhop")))
	s.env = append(s.env, "PATH="+dir+":"+os.Getenv("PATH"))
	s.call("topics", "set", "order.timeout", "archive_acked=true")
	s.start("serve")
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	archived := func(what string, n int64) {
		t.Helper()
		storetest.Eventually(t, what, func() bool {
			there := databasetest.Ask(t, s.setting("BELLHOP_ARCHIVE_URL"), "SELECT to_regclass('bellhop.messages')::text")[0] != nil
			return there && databasetest.Ask(t, s.setting("BELLHOP_ARCHIVE_URL"), "SELECT count(*) FROM bellhop.messages")[0] == n
		})
	}
	archivetest.Registered(t, db)
	for id, tenant := range map[string]string{"order-4711": "acme", "order-4712": "acme", "order-4713": "other"} {
		storetest.Publish(t, db, notify.Message{Topic: "order.timeout", ID: id, Body: []byte(`{"total":12}`), Headers: map[string]string{"Tenant": tenant, "User": "4711"}})
	}
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "order.timeout", subscribers.ClaimOptions{Max: 3, Lease: time.Minute, Worker: "shop-1"})
	if err != nil || len(ds) != 3 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	for _, d := range ds {
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "payments answered 503")))
	}
	archived("three died", 3)
	follow(t, s, dir, pagestest.Lines(t, page, "Why messages died"), []step{
		{line: "GROUP BY", want: " order.timeout | payments answered 503 |     2\n"},
		{line: "LIMIT 20", want: `| order-4712 |        1 | shop-1 | {"total":12}`},
		{line: "archive search", want: "order-4711"},
		{line: "archive show", want: "payments answered 503"},
		{line: "archive requeue", want: "requeued 2, refused 0\n"},
		{line: "work order.timeout", want: "order-4711"},
		{line: "inspect", want: "order-4711", code: exitFailed},
	})
	archived("two succeeded", 5)
	contains(t, s.call("archive", "search", "--state", "acked"), "order-4711", "order-4712")
	follow(t, s, dir, pagestest.Lines(t, page, "Remove"), []step{
		{line: "erase", want: "erased 5\n"},
		{line: "prune", want: "pruned 0\n"},
		{line: "close", want: "closed, removed 0\n"},
	})
	if b, err := db.Of("order.timeout").Backlog(t.Context()); err != nil || b.Open {
		t.Errorf("the archive is %+v, %v", b, err)
	}
}
