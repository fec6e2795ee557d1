package outbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The role of a relay lists what was refused, and retries and purges it; rows that it names are changed together or not at all.
func TestRefusedIsChanged(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, as := role(t, root)
	install(t, root, outbox.InstallOptions{Relay: []string{name}})
	databasetest.Exec(t, root, "SELECT bellhop.publish('t', id => 'a' || n) FROM generate_series(1, 5) AS n; UPDATE bellhop.outbox SET refused = repeat('x', 5000) WHERE seq < 4")
	b, err := outbox.New(storetest.Open(t), outbox.Options{Address: database.Address{URL: as}})
	storetest.Must(t, err)
	t.Cleanup(b.Close)
	rows, err := b.Refused(t.Context(), 1, 1)
	if err != nil || len(rows) != 1 || rows[0].ID != "a2" || rows[0].Topic != "t" || len(rows[0].Reason) != 4096 || rows[0].Called.IsZero() {
		t.Fatalf("listed %+v, %v", rows, err)
	}
	for doing, f := range map[string]func() (int, error){
		"retry": func() (int, error) { return b.Retry(t.Context(), outbox.Choice{Seqs: []int64{1, 4}}) },
		"purge": func() (int, error) { return b.Purge(t.Context(), outbox.Choice{Seqs: []int64{4, 1}}) },
	} {
		if n, err := f(); n != 0 || !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("%s of one that waits: %d, %v", doing, n, err)
		}
	}
	left := func(done int, err error, n int, want string) {
		t.Helper()
		const query = "SELECT string_agg(seq || CASE WHEN refused IS NULL THEN '' ELSE '!' END, ' ' ORDER BY seq) FROM bellhop.outbox"
		if got := databasetest.Ask(t, root, query)[0]; err != nil || done != n || got != want {
			t.Errorf("%d, %v leaves %v, want %d and %s", done, err, got, n, want)
		}
	}
	done, err := b.Retry(t.Context(), outbox.Choice{UpTo: 2, Limit: 10})
	left(done, err, 2, "3! 4 5 6 7")
	done, err = b.Purge(t.Context(), outbox.Choice{UpTo: 7, Limit: 10})
	left(done, err, 1, "4 5 6 7")
	done, err = b.PurgeWaiting(t.Context(), time.Now().Add(-time.Hour), 10)
	left(done, err, 0, "4 5 6 7")
	now, err := b.Now(t.Context())
	storetest.Must(t, err)
	done, err = b.PurgeWaiting(t.Context(), now, 3)
	left(done, err, 3, "7")
}
