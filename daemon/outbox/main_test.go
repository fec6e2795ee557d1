package outbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) {
	outbox.Hasten(0)
	storetest.MainWaiting(m)
}

// install installs an outbox.
func install(t testing.TB, url string, o outbox.InstallOptions) outbox.Installation {
	t.Helper()
	made, err := outbox.Install(t.Context(), database.Address{URL: url}, o)
	storetest.Must(t, err)
	return made
}

// installed returns the URL of a database of the test's own that has an outbox.
func installed(t testing.TB) (url string) {
	t.Helper()
	url = databasetest.Database(t)
	install(t, url, outbox.InstallOptions{})
	return url
}

// connect makes a connection, closed when the test ends.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// begin begins a transaction, rolled back when the test ends.
func begin(t testing.TB, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	storetest.Must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// do runs a statement.
func do(t testing.TB, on interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}, statement string, args ...any,
) {
	t.Helper()
	if _, err := on.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// last returns the message of the newest row, as it is read as a line.
func last(t testing.TB, url string) notify.Message {
	t.Helper()
	const row = `SELECT (coalesce(asked, '{}') || jsonb_build_object('topic', topic, 'id', id, 'body_base64', translate(encode(body, 'base64'), chr(10), '')))::text
		FROM bellhop.outbox ORDER BY seq DESC LIMIT 1`
	line := databasetest.Ask(t, url, row)
	if line == nil {
		t.Fatal("there is no row")
	}
	m, err := notify.ParseLine([]byte(line[0].(string)))
	if err != nil {
		t.Fatalf("%s: %v", line[0], err)
	}
	return m
}

// rows returns how many there are.
func rows(t testing.TB, url string) int64 {
	t.Helper()
	return databasetest.Ask(t, url, "SELECT count(*) FROM bellhop.outbox")[0].(int64)
}
