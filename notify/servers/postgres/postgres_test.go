package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// ask runs a statement on a connection of its own and returns its one value.
func ask(ctx context.Context, url, statement string) (value string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, statement).Scan(&value)
	return value, err
}

func want(t *testing.T, url, statement, value string) {
	t.Helper()
	if got, err := ask(t.Context(), url, statement); got != value || err != nil {
		t.Errorf("%s: got %q, %v, want %q", statement, got, err, value)
	}
}

// A server keeps what it holds over a kill, a crash and a stop, answers nothing while it is
// paused, and asks for a password over TCP alone.
func TestServer(t *testing.T) {
	s, err := postgres.Start(t.Context(), postgres.Options{Args: []string{"-c", "work_mem=1234kB", "-c", "full_page_writes=on"}})
	storetest.Must(t, err)
	defer s.Close()
	storetest.Must(t, s.Create(t.Context(), "a b"))
	url := s.URL("a b")
	want(t, url, "SHOW work_mem", "1234kB")

	conn, err := pgx.Connect(t.Context(), url)
	storetest.Must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	storetest.Must(t, storetest.ErrOf(conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'row' AS v")))

	for _, end := range []func(){s.Kill, s.Crash} {
		end()
		storetest.Eventually(t, "its processes end", func() bool { return conn.Ping(t.Context()) != nil })
		storetest.Must(t, s.Restart(t.Context()))
		want(t, url, "SELECT v FROM kept", "row")
	}

	s.Stop()
	storetest.Must(t, s.Restart(t.Context()))
	want(t, s.SocketURL("a b"), "SELECT v FROM kept", "row")

	if conn, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	storetest.Must(t, s.Pause())
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := conn.Ping(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server answers: %v", err)
	}
	storetest.Must(t, s.Resume())
	want(t, url, "SELECT v FROM kept", "row")

	_, err = ask(t.Context(), strings.Replace(url, "correct", "wrong", 1), "SELECT 1")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("with a wrong password: got %v", err)
	}
}

// A replica follows its server, and takes its place.
func TestReplica(t *testing.T) {
	s, err := postgres.Start(t.Context(), postgres.Options{})
	storetest.Must(t, err)
	defer s.Close()
	r, err := s.Replica(t.Context())
	storetest.Must(t, err)
	defer r.Close()
	_, _ = ask(t.Context(), s.URL("postgres"), "CREATE TABLE kept AS SELECT 'row' AS v") // which answers no value
	storetest.Eventually(t, "the replica has the row", func() bool {
		v, err := ask(t.Context(), r.URL("postgres"), "SELECT v FROM kept")
		return err == nil && v == "row"
	})
	want(t, r.URL("postgres"), "SELECT pg_is_in_recovery()::text", "true")
	s.Kill()
	want(t, r.URL("postgres"), "SELECT pg_promote()::text", "true")
	want(t, r.URL("postgres"), "INSERT INTO kept VALUES ('another') RETURNING v", "another")
}
