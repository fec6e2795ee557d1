package database_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// What is wrong with an address is told all at once, and without the URL, which may hold a
// password.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of    database.Address
		want  []string
		shown string
	}{
		"nothing":         {database.Address{}, []string{"url"}, ""},
		"both":            {database.Address{URL: "mysql://u:secret@h/d", PasswordFile: "/none"}, []string{"url", "password_file"}, "[unreadable]"},
		"no URL":          {database.Address{URL: "postgres://u:sec%ret@h/d"}, []string{"url"}, "[unreadable]"},
		"words":           {database.Address{URL: "host=h password=secret"}, []string{"url"}, "[unreadable]"},
		"a wrong port":    {database.Address{URL: "postgres://u:secret@h:99999/d"}, []string{"url"}, "postgres://u:xxxxx@h:99999/d"},
		"a wrong mode":    {database.Address{URL: "postgres://u@h/d?sslmode=maybe&password=secret"}, []string{"url"}, "postgres://u@h/d?password=xxxxx&sslmode=maybe"},
		"no certificate":  {database.Address{URL: "postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/none"}, []string{"url"}, "postgres://u:xxxxx@h/d?sslmode=verify-full&sslrootcert=%2Fnone"},
		"a bare password": {database.Address{URL: "postgres://u:sec#ret@h/d"}, []string{"url"}, "[unreadable]"},
	} {
		err := test.of.Check()
		var fields []string
		for _, fault := range fault.All(err) {
			fields = append(fields, fault.Field)
		}
		if diff := cmp.Diff(test.want, fields); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); !errors.Is(err, notify.ErrInvalid) || strings.Contains(text, "secret") || strings.Contains(text, "sec#ret") {
			t.Errorf("%s: got %s", name, text)
		}
		if shown := test.of.String(); shown != test.shown {
			t.Errorf("%s: it is shown as %s, want %s", name, shown, test.shown)
		}
	}
}

// connect makes a connection, closed when the test ends.
func connect(t *testing.T, of database.Address) *pgx.Conn {
	t.Helper()
	config, err := of.Config()
	storetest.Must(t, err)
	conn, err := database.Connect(t.Context(), config)
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// The password of a file overrides that of the URL, and the connection has the name of the program.
func TestConnect(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	storetest.Must(t, os.WriteFile(file, []byte(postgres.Password+"\n"), 0o600))
	url := strings.Replace(databasetest.Database(t), "@127", "wrong@127", 1)
	conn := connect(t, database.Address{URL: url, PasswordFile: file})
	var name string
	if err := conn.QueryRow(t.Context(), "SHOW application_name").Scan(&name); err != nil || name != "bellhop" {
		t.Errorf("it is named %q, %v", name, err)
	}
	config, err := database.Address{URL: url}.Config()
	storetest.Must(t, err)
	_, err = database.Connect(t.Context(), config)
	if err = database.Failed("connect", err, nil); !database.LockedOut(err) || !database.IsError(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a wrong password: %v", err)
	}
}

// An error has what was to be done and its remedy once.
func TestFailed(t *testing.T) {
	t.Parallel()
	conn := connect(t, database.Address{URL: databasetest.Database(t)})
	_, err := conn.Exec(t.Context(), "SELECT FROM no_table")
	remedies := map[string]string{database.NoTable: "make it"}
	err = database.Failed("again", fmt.Errorf("x: %w", database.Failed("look", err, remedies)), remedies)
	if want := `x: look: ERROR: relation "no_table" does not exist (SQLSTATE 42P01); make it`; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := database.Failed("look", nil, remedies); err != nil {
		t.Errorf("nothing failed, and it is %v", err)
	}
}

// One changes the schema at a time, and what fails leaves nothing.
func TestChange(t *testing.T) {
	t.Parallel()
	url := databasetest.Database(t)
	first, second := connect(t, database.Address{URL: url}), connect(t, database.Address{URL: url})
	done := make(chan error, 1)
	err := database.Change(t.Context(), first, func(tx pgx.Tx) error {
		go func() {
			done <- database.Change(t.Context(), second, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "CREATE SCHEMA bellhop")
				return err
			})
		}()
		storetest.Eventually(t, "the second waits", func() bool {
			return databasetest.Ask(t, url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")[0] == int64(1)
		})
		_, err := tx.Exec(t.Context(), "CREATE SCHEMA bellhop; SELECT 1/0")
		return err
	})
	if database.Condition(err) == "" {
		t.Errorf("the first: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the second: %v", err)
	}
}
