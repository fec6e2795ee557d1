package databasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Bouncer starts a PgBouncer in front of a server, which gives each transaction any of two sessions, and returns the URL of a database
// there. It is stopped when the test ends.
func Bouncer(t testing.TB, server *postgres.Server, database string) (url string) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer" // where Debian installs it
	}
	port := storetest.Port(t)
	dir, err := os.MkdirTemp("", "bellhop-pgbouncer-")
	storetest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%s user=%s password='%s'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
`, database, strings.TrimPrefix(server.Addr(), "127.0.0.1:"), postgres.User, postgres.Password, port)
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.Chmod(dir, 0o755)); err != nil { // another user reads it
		t.Fatal(err)
	}
	var log bytes.Buffer
	p, err := child.Start(child.Program{Path: path, Args: []string{config}, Name: "pgbouncer", Output: &log, User: server.Credential()})
	if err != nil {
		t.Fatalf("%v; install it, here with: make tools", err)
	}
	t.Cleanup(p.Kill)
	through := fmt.Sprintf("postgres://anybody@127.0.0.1:%d/%s", port, database)
	err = p.Await(t.Context(), storetest.Deadline, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, through+"?sslmode=disable")
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	return through
}
