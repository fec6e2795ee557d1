// Package archivetest gives tests an archive.
package archivetest

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Open returns an archive of a store, closed when the test ends.
func Open(t testing.TB, s *notify.Store, o archive.Options) *archive.Archive {
	t.Helper()
	a, err := archive.New(s, o)
	storetest.Must(t, err)
	t.Cleanup(a.Close)
	return a
}

// Registered waits until an archive is registered in all shards of a store.
func Registered(t testing.TB, s *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "an archive is registered", func() bool {
		open, err := store.Gather(t.Context(), s, func(ctx context.Context, shard store.Shard) (bool, error) {
			backlog, err := shard.Backlog(ctx)
			return backlog.Open, err
		})
		return err == nil && !slices.Contains(open, false)
	})
}

// Hold waits for a table, which a registered archive may still have to make, and keeps others
// from it until the test ends.
func Hold(t testing.TB, url, table string) {
	t.Helper()
	storetest.Eventually(t, "there is a table "+table, func() bool { return databasetest.Ask(t, url, "SELECT to_regclass($1) IS NOT NULL", table)[0] == true })
	conn, err := pgx.Connect(t.Context(), url)
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	storetest.Must(t, storetest.ErrOf(conn.PgConn().Exec(t.Context(), "BEGIN; LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE").ReadAll()))
}

// Log returns a logger, and what it logged until now.
func Log() (log *slog.Logger, logged func() string) {
	w := &storetest.Log{}
	return w.Logger(slog.LevelDebug), w.String
}
