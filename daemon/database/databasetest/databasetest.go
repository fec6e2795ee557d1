// Package databasetest gives tests databases of PostgreSQL.
package databasetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// shared is the server of a test package. It runs from its first use on.
var shared struct {
	mu     sync.Mutex
	server *postgres.Server
	err    error
}

// Database returns the URL of an empty database of the test's own, at a server that the
// tests of a package share: they must not stop it. The package's TestMain is one of
// storetest's.
func Database(t testing.TB) (url string) {
	t.Helper()
	s := serverOf(t)
	name := "test " + notify.NewID()
	storetest.Must(t, s.Create(t.Context(), name))
	return s.URL(name)
}

func serverOf(t testing.TB) *postgres.Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		if shared.server, shared.err = postgres.Start(context.Background(), postgres.Options{}); shared.err == nil {
			storetest.AtEnd(shared.server.Close)
		}
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Server starts a PostgreSQL server of the test's own, with an empty database, and returns
// the URL of that. The server is closed when the test ends.
func Server(t testing.TB, args ...string) (s *postgres.Server, url string) {
	t.Helper()
	s, err := postgres.Start(t.Context(), postgres.Options{Args: args})
	storetest.Must(t, err)
	t.Cleanup(s.Close)
	storetest.Must(t, s.Create(t.Context(), "archive"))
	return s, s.URL("archive")
}

// Exec runs statements in a database.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(t.Context(), statements).ReadAll()
		return err
	})
}

// Ask runs a query in a database, and returns the values of its first row: none if it has
// no row.
func Ask(t testing.TB, url, query string, args ...any) (values []any) {
	t.Helper()
	on(t, url, func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), query, args...)
		if err != nil {
			return err
		}
		values, err = pgx.CollectOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	})
	return values
}

func on(t testing.TB, url string, f func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	storetest.Must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	storetest.Must(t, f(conn))
}
