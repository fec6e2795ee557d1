package archive_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// as returns the URL of a database with another user.
func as(t testing.TB, raw, user, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	storetest.Must(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// at returns a message that ended at a time.
func at(n int, ended time.Time) store.Ending {
	e := dead(n)
	e.Ended = ended
	return e
}

// The months of rows have partitions, whose bounds are in UTC wherever the server is, and
// which are made again if one was dropped.
func TestMonths(t *testing.T) {
	a, url := open(t)
	last, first := time.Date(2025, 12, 31, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write(t, a, "store1", at(1, last), at(2, first), at(3, time.UnixMilli(0)), at(4, time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)))
	const where = "SELECT string_agg(relname || ' ' || id, ', ' ORDER BY id) FROM bellhop.messages m JOIN pg_class c ON c.oid = m.tableoid"
	want := "messages_2025_12 m1, messages_2026_01 m2, messages_1970_01 m3, messages_9999_12 m4"
	if got := databasetest.Ask(t, url, where)[0]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for month := range 2 { // this month and the next are made ahead
		now := time.Now().UTC()
		name := time.Date(now.Year(), now.Month()+time.Month(month), 1, 0, 0, 0, 0, time.UTC).Format("bellhop.messages_2006_01")
		if databasetest.Ask(t, url, "SELECT to_regclass($1)::text", name)[0] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	databasetest.Exec(t, url, "DROP TABLE bellhop.messages_2025_12")
	write(t, a, "store1", at(5, last))
	if n := databasetest.Ask(t, url, "SELECT count(*) FROM bellhop.messages_2025_12")[0]; n != int64(1) {
		t.Errorf("a dropped month has %v rows", n)
	}
}

// A month that an operator detached keeps its rows, and what ended in it waits for it. One
// that is part of another partition is no fault.
func TestOtherPartitions(t *testing.T) {
	a, url := open(t)
	write(t, a, "store1", dead(1))
	databasetest.Exec(t, url, `ALTER TABLE bellhop.messages DETACH PARTITION bellhop.messages_2026_10;
		CREATE TABLE bellhop.old PARTITION OF bellhop.messages FOR VALUES FROM ('2001-01-01 00:00:00+00') TO ('2005-01-01 00:00:00+00')`)
	write(t, a, "store1", at(2, time.Date(2003, 3, 3, 0, 0, 0, 0, time.UTC)))
	err := a.Write(t.Context(), "store1", []store.Ending{dead(3)})
	const attach = "ALTER TABLE bellhop.messages ATTACH PARTITION bellhop.messages_2026_10 FOR VALUES FROM ('2026-10-01 00:00:00+00') TO ('2026-11-01 00:00:00+00')"
	if err == nil || !strings.Contains(err.Error(), attach) {
		t.Fatalf("got %v", err)
	}
	databasetest.Exec(t, url, attach)
	write(t, a, "store1", dead(3))
	storetest.Same(t, "rows", []string{"m1", "m3", "m2"}, ids(search(t, a, archive.Query{}, 10)))
}

// A month that is dropped while a term runs is made again.
func TestMonthIsDropped(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	runTerm(t, archivetest.Open(t, s, archive.Options{URL: url}), s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	wantRows(t, url, 1)
	databasetest.Exec(t, url, `DO $$ DECLARE p regclass; BEGIN
		FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'bellhop.messages'::regclass LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$`)
	mustKill(t, s, 1, 2)
	wantRows(t, url, 1)
	if id := databasetest.Ask(t, url, "SELECT id FROM bellhop.messages")[0]; id != "m1" {
		t.Errorf("the row is of %v", id)
	}
}

// A user without a right is told the statement that needs it, without the password, and
// nothing is lost. One whose schema was made for it needs no more.
func TestRights(t *testing.T) {
	s, root := storetest.Open(t), databasetest.Database(t)
	user := "poor" + strings.ReplaceAll(strings.ToLower(notify.NewID()), "-", "_")
	databasetest.Exec(t, root, fmt.Sprintf("CREATE USER %s PASSWORD 'very secret'", user))
	log, logged := archivetest.Log()
	runTerm(t, archivetest.Open(t, s, archive.Options{URL: as(t, root, user, "very secret"), Logger: log}), s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 2)
	storetest.Eventually(t, "the log names the statement", func() bool { return strings.Contains(logged(), "CREATE SCHEMA bellhop: ERROR: permission denied") })
	databasetest.Exec(t, root, "CREATE SCHEMA bellhop AUTHORIZATION "+user)
	wantRows(t, root, 2)
	if strings.Contains(logged(), "very secret") {
		t.Errorf("the password is in the log:\n%s", logged())
	}

	databasetest.Exec(t, root, fmt.Sprintf("ALTER TABLE bellhop.messages OWNER TO CURRENT_USER; GRANT SELECT ON bellhop.messages TO %s", user))
	a := archivetest.Open(t, s, archive.Options{URL: as(t, root, user, "very secret")})
	if len(search(t, a, archive.Query{}, 10)) != 2 {
		t.Error("a reader finds other rows")
	}
	for call, err := range map[string]error{
		"INSERT INTO bellhop.messages": a.Write(t.Context(), "store1", []store.Ending{at(5, time.Now())}),
		"erase":                        second(a.Erase(t.Context(), archive.Query{}, 1)),
	} {
		if err == nil || !strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", call, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A wrong password is told without the password; one in a file is read anew for each
// connection.
func TestPasswordFile(t *testing.T) {
	s, root := storetest.Open(t), databasetest.Database(t)
	user := "filed" + strings.ReplaceAll(strings.ToLower(notify.NewID()), "-", "_")
	databasetest.Exec(t, root, fmt.Sprintf("CREATE USER %s PASSWORD 'new secret'; CREATE SCHEMA bellhop AUTHORIZATION %s", user, user))
	file := filepath.Join(t.TempDir(), "password")
	secret := func(text string) {
		storetest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	secret("old secret\n")
	log, logged := archivetest.Log()
	runTerm(t, archivetest.Open(t, s, archive.Options{URL: as(t, root, user, "third secret"), PasswordFile: file, Logger: log}), s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	storetest.Eventually(t, "the log says why", func() bool { return strings.Contains(logged(), "password authentication failed") })
	secret("new secret\n")
	wantRows(t, root, 1)
	if strings.Contains(logged(), "secret") {
		t.Errorf("a password is in the log:\n%s", logged())
	}
}

// A disk that is full is told, and what ended waits.
func TestDiskFull(t *testing.T) {
	s, url := storetest.Open(t), databasetest.Database(t)
	log, logged := archivetest.Log()
	a := archivetest.Open(t, s, archive.Options{URL: url, Logger: log})
	runTerm(t, a, s)
	archivetest.Registered(t, s)
	mustKill(t, s, 0, 1)
	wantRows(t, url, 1)
	const function = "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; END $$"
	databasetest.Exec(t, url, fmt.Sprintf(function, "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'")+
		"; CREATE TRIGGER full_disk BEFORE INSERT ON bellhop.messages FOR EACH ROW EXECUTE FUNCTION full_disk()")
	mustKill(t, s, 1, 3)
	storetest.Eventually(t, "the log says so", func() bool { return strings.Contains(logged(), "No space left on device") && a.Stats().Away })
	databasetest.Exec(t, url, fmt.Sprintf(function, "RETURN NEW")) // DROP TRIGGER may meet an INSERT in a deadlock
	wantRows(t, url, 3)
	wantEmpty(t, s)
}

// odd are messages with what a database does not take as it is.
func odd() []store.Ending {
	zero, wrong, foreign, letters, unreadable := dead(1), dead(2), dead(3), dead(4), dead(5)
	zero.Reason, zero.Headers, zero.ContentType = "a\x00b", map[string]string{"a\x00": "\x00"}, "\x00"
	wrong.Reason, wrong.History = "\xff\xfe", []record.Attempt{{Ended: noon, By: "\xff", Reason: "\xc3("}}
	foreign.Member = "no topic: " + strings.Repeat("ü\x00\xff", 4000)
	letters.Key, letters.IfBusy = "ü\x00\xff", "\x00"
	letters.Reason, letters.Headers = "日本語", map[string]string{"Name": "日本"}
	unreadable.Record, unreadable.Raw, unreadable.Fault = notify.Record{}, "?\x00\xff", fmt.Errorf("%w: \x00", record.ErrRecord)
	return []store.Ending{dead(0), zero, wrong, foreign, letters, unreadable, {Entry: "1700000000000-7"}}
}

// Texts that no database holds are stored with what stands for them, and keep nothing else
// from being stored.
func TestOddTexts(t *testing.T) {
	a, _ := open(t)
	write(t, a, "store1", odd()...)
	write(t, a, "store1", odd()...)
	rows := search(t, a, archive.Query{}, 100)
	if len(rows) != len(odd()) {
		t.Fatalf("got the rows %q", ids(rows))
	}
	for i, want := range []string{"no answer", "a\uFFFDb", "\uFFFD", "no answer", "日本語", "no answer", ""} {
		if rows[i].Reason != want {
			t.Errorf("row %d has the reason %q, want %q", i, rows[i].Reason, want)
		}
	}
	if row := rows[3]; row.Topic != "" || !strings.HasPrefix(row.ID, "no topic: ü\uFFFD\uFFFD") {
		t.Errorf("the foreign one is %q of %q", row.ID, row.Topic)
	}
	if row := rows[5]; !bytes.Equal(row.Body, []byte("?\x00\xff")) || row.Fault == "" || row.Size != 3 {
		t.Errorf("the unreadable one is %+v", row)
	}
	if row := rows[6]; !row.Ended.Equal(time.UnixMilli(1700000000000)) {
		t.Errorf("the empty one ended at %v", row.Ended)
	}
}

// In a database of few letters the others are replaced, for those messages alone.
func TestOtherEncoding(t *testing.T) {
	server, _ := databasetest.Server(t)
	databasetest.Exec(t, server.URL("archive"), "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
	log, logged := archivetest.Log()
	a := archivetest.Open(t, storetest.Open(t), archive.Options{URL: server.URL("latin"), Logger: log})
	umlaut := dead(6)
	umlaut.Reason = "für"
	write(t, a, "store1", append(odd(), umlaut)...)
	rows := search(t, a, archive.Query{}, 100)
	if len(rows) != len(odd())+1 {
		t.Fatalf("got the rows %q", ids(rows))
	}
	if rows[0].Reason != "no answer" || rows[4].Reason != "???" || rows[6].Reason != "für" || rows[4].Headers["Name"] != "??" {
		t.Errorf("got the rows %+v", rows)
	}
	if !strings.Contains(logged(), "archiving that in ASCII") || !strings.Contains(logged(), "order.timeout:m4") {
		t.Errorf("the log does not say so:\n%s", logged())
	}
}
