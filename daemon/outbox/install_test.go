package outbox_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const secret = "secret"

// withoutFunctions removes the functions of an outbox.
const withoutFunctions = `DO $$ DECLARE f regprocedure; BEGIN
	FOR f IN SELECT oid FROM pg_proc WHERE proname = 'publish' LOOP EXECUTE 'DROP FUNCTION ' || f; END LOOP; END $$`

// role makes a role that may log in, and returns its name and the URL of the database for it.
func role(t testing.TB, root string) (name, as string) {
	t.Helper()
	name = "Role " + notify.NewID()
	databasetest.Exec(t, root, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", pgx.Identifier{name}.Sanitize(), secret))
	u, err := url.Parse(root)
	storetest.Must(t, err)
	u.User = url.UserPassword(name, secret)
	return name, u.String()
}

// waits waits until a session waits for a lock.
func waits(t testing.TB, url string) {
	t.Helper()
	storetest.Eventually(t, "a session waits for a lock", func() bool {
		return databasetest.Ask(t, url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")[0] != int64(0)
	})
}

// refusedFor checks that a statement is refused for a right.
func refusedFor(t testing.TB, url, statement string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), statement); database.Condition(err) != database.NoRight {
		t.Errorf("%s: got %v", statement, err)
	}
}

// To install again changes nothing but what is asked for.
func TestInstallAgain(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, app := role(t, root)
	first := install(t, root, outbox.InstallOptions{Grant: []string{name}, MaxBody: 1 << 20})
	databasetest.Ask(t, app, "SELECT bellhop.publish('t')")
	again := install(t, root, outbox.InstallOptions{})
	if again.ID != first.ID || first.From != 0 || again.From != outbox.Version || first.MaxBody != 1<<20 || again.MaxBody != 1<<20 {
		t.Errorf("first %+v, then %+v", first, again)
	}
	databasetest.Ask(t, app, "SELECT bellhop.publish('t', repeat('x', 1048576))")
	if n := rows(t, root); n != 2 {
		t.Errorf("%d rows", n)
	}
	if other := install(t, root, outbox.InstallOptions{NewID: true, MaxBody: 5}); other.ID == first.ID || other.MaxBody != 5 {
		t.Errorf("anew it is %+v", other)
	}
}

// The functions of an older version make way, and who may execute them may execute the new ones.
func TestInstallOverOlder(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, app := role(t, root)
	lent, lender := role(t, root)
	install(t, root, outbox.InstallOptions{})
	databasetest.Ask(t, root, "SELECT bellhop.publish('t')")
	databasetest.Exec(t, root, withoutFunctions)
	databasetest.Exec(t, root, fmt.Sprintf(`UPDATE bellhop.outbox_about SET version = 0; GRANT USAGE ON SCHEMA bellhop TO %s, %s;
		CREATE FUNCTION bellhop.publish(topic text, body bytea, id text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$ SELECT 'old' $$;
		REVOKE ALL ON FUNCTION bellhop.publish(text, bytea, text) FROM PUBLIC;
		GRANT EXECUTE ON FUNCTION bellhop.publish(text, bytea, text) TO %[1]s;
		GRANT EXECUTE ON FUNCTION bellhop.publish(text, bytea, text) TO %[2]s WITH GRANT OPTION;`, pgx.Identifier{name}.Sanitize(), pgx.Identifier{lent}.Sanitize()))
	if made := install(t, root, outbox.InstallOptions{}); made.From != 0 {
		t.Errorf("it is %+v", made)
	}
	for _, as := range []string{app, lender} {
		if id := databasetest.Ask(t, as, "SELECT bellhop.publish('t', ''::bytea, 'x')"); id[0] != "x" {
			t.Errorf("it answers %v", id)
		}
	}
	const lends = "SELECT bool_and(has_function_privilege($1, oid, 'EXECUTE WITH GRANT OPTION')), count(*) FROM pg_proc WHERE proname = 'publish'"
	if got := databasetest.Ask(t, root, lends, lent); got[0] != true || got[1] != int64(3) {
		t.Errorf("the right to grant: %v", got)
	}
	if got := databasetest.Ask(t, root, lends, name); got[0] != false {
		t.Errorf("the right to grant of the other: %v", got)
	}
	if got := databasetest.Ask(t, root, "SELECT version, (SELECT count(*) FROM bellhop.outbox) FROM bellhop.outbox_about"); got[0] != int32(outbox.Version) || got[1] != int64(3) {
		t.Errorf("version and rows are %v", got)
	}
}

// What is foreign or newer is refused, and left as it is; so are wrong options.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for want, before := range map[string]string{
		"is none of Bellhop; rename it": "CREATE SCHEMA bellhop; CREATE TABLE bellhop.outbox (n integer)",
		"is none of Bellhop":            "CREATE SCHEMA bellhop; CREATE VIEW bellhop.outbox AS SELECT 1 AS seq, 2 AS called, 3 AS topic, 4 AS id, 5 AS asked, 6 AS body, 7 AS refused",
		"none of Bellhop":               "CREATE SCHEMA bellhop; CREATE TABLE bellhop.outbox_about (n integer); INSERT INTO bellhop.outbox_about VALUES (1)",
		"has version 99, and this program knows up to 1; update this one":           "newer",
		`role "nobody at all" does not exist (SQLSTATE 42704); make the role first`: "",
	} {
		root := databasetest.Database(t)
		var o outbox.InstallOptions
		switch before {
		case "newer":
			install(t, root, o)
			databasetest.Exec(t, root, "UPDATE bellhop.outbox_about SET version = 99")
		case "":
			o.Grant = []string{"nobody at all"}
		default:
			databasetest.Exec(t, root, before)
		}
		const look = "SELECT coalesce(string_agg(p.oid::regprocedure::text, ' ' ORDER BY 1), '') FROM pg_proc p WHERE pronamespace = to_regnamespace('bellhop')"
		was := databasetest.Ask(t, root, look)[0]
		_, err := outbox.Install(t.Context(), database.Address{URL: root}, o)
		if !database.IsError(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "correct horse") {
			t.Errorf("%s: got %v", before, err)
		}
		if is := databasetest.Ask(t, root, look)[0]; is != was {
			t.Errorf("%s: the functions are %v, and were %v", before, is, was)
		}
	}
	_, err := outbox.Install(t.Context(), database.Address{URL: "mysql://x"}, outbox.InstallOptions{MaxBody: -1, Grant: []string{""}})
	for _, want := range []string{"url: it does not begin with postgres://", "invalid max body -1: use 1 to 67108864", "grant: it is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A role without a right is told the statement that gives it, and then needs no more.
func TestInstallWithoutRights(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, poor := role(t, root)
	other, stranger := role(t, root)
	quoted := pgx.Identifier{name}.Sanitize()
	fails := func(url, want string) string {
		t.Helper()
		_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Fatalf("got %v, want %s", err, want)
		}
		_, grant, _ := strings.Cut(err.Error(), "GRANT ")
		grant, _, _ = strings.Cut(grant, " (SQLSTATE")
		return "GRANT " + grant
	}
	databasetest.Exec(t, root, fails(poor, `allow it: GRANT CREATE ON DATABASE `))
	install(t, poor, outbox.InstallOptions{})
	fails(stranger, "allow it: GRANT CREATE, USAGE ON SCHEMA bellhop TO ")
	databasetest.Exec(t, root, fails(stranger, "allow it: GRANT CREATE, USAGE ON SCHEMA bellhop TO "))
	fails(stranger, "bellhop.outbox belongs to "+quoted+"; log in as that role, or join it: GRANT "+quoted+" TO "+pgx.Identifier{other}.Sanitize())
	databasetest.Exec(t, root, fails(stranger, "belongs to"))
	databasetest.Exec(t, root, withoutFunctions)
	install(t, stranger, outbox.InstallOptions{})
	const others = "SELECT count(*) FROM pg_proc p, pg_class c WHERE c.oid = 'bellhop.outbox'::regclass AND p.proname = 'publish' AND p.proowner <> c.relowner"
	if n := databasetest.Ask(t, root, others)[0]; n != int64(0) {
		t.Errorf("%v functions do not belong to the owner of the table", n)
	}
}

// Who publishes may do nothing else, and who relays may not publish.
func TestRights(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, app := role(t, root)
	daemon, relay := role(t, root)
	_, stranger := role(t, root)
	install(t, root, outbox.InstallOptions{Grant: []string{name}, Relay: []string{daemon}})
	databasetest.Ask(t, app, "SELECT bellhop.publish('t', 'secret', id => 'x')")
	databasetest.Ask(t, app, "SELECT bellhop.publish('t', '{}'::jsonb)")
	for _, statement := range []string{
		"SELECT id FROM bellhop.outbox", "DELETE FROM bellhop.outbox", "INSERT INTO bellhop.outbox (topic, id, body) VALUES ('a b', '', '')", "SELECT nextval('bellhop.outbox_seq')", "SELECT FROM bellhop.outbox_about",
	} {
		refusedFor(t, app, statement)
	}
	databasetest.Exec(t, root, "GRANT USAGE ON SCHEMA bellhop TO PUBLIC") // as readers of an archive have it
	for _, statement := range []string{"SELECT bellhop.publish('t')", "SELECT bellhop.publish('t', ''::bytea)", "SELECT bellhop.publish('t', '{}'::jsonb)", "SELECT FROM bellhop.outbox"} {
		refusedFor(t, stranger, statement)
	}
	for _, statement := range []string{
		"SELECT * FROM bellhop.outbox", "SELECT id, version FROM bellhop.outbox_about", "SELECT last_value FROM bellhop.outbox_seq",
		"UPDATE bellhop.outbox SET refused = 'x'", "UPDATE bellhop.outbox SET refused = NULL, seq = DEFAULT WHERE refused IS NOT NULL", "DELETE FROM bellhop.outbox WHERE seq = ANY ('{1}')",
	} {
		do(t, connect(t, relay), statement)
	}
	for _, statement := range []string{"SELECT bellhop.publish('t')", "UPDATE bellhop.outbox SET body = ''", "UPDATE bellhop.outbox_about SET version = 2", "INSERT INTO bellhop.outbox (topic, id, body) VALUES ('t', 'x', '')"} {
		refusedFor(t, relay, statement)
	}
	if n := rows(t, root); n != 2 {
		t.Errorf("%d rows are left", n)
	}
}

// Many install at the same time, beside an archive that is made, which stays when the outbox goes.
func TestInstallTogether(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, _ := role(t, root)
	s := storetest.Open(t)
	a := archivetest.Open(t, s, archive.Options{URL: root})
	storetest.Run(t, func(ctx context.Context) error {
		a.Term(ctx, carrier.Term{Shard: s.Of("orders")})
		return nil
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			storetest.Should(t, storetest.ErrOf(outbox.Install(t.Context(), database.Address{URL: root}, outbox.InstallOptions{Grant: []string{name}})))
		})
	}
	all.Wait()
	if n := databasetest.Ask(t, root, "SELECT count(*) FROM bellhop.outbox_about")[0]; n != int64(1) {
		t.Errorf("%v outboxes are there", n)
	}
	const archived = "SELECT to_regclass('bellhop.messages') IS NOT NULL"
	storetest.Eventually(t, "the archive is made", func() bool { return databasetest.Ask(t, root, archived)[0] == true })
	if _, err := outbox.Uninstall(t.Context(), database.Address{URL: root}); err != nil || databasetest.Ask(t, root, archived)[0] != true {
		t.Errorf("the archive is gone, %v", err)
	}
}

// What is uninstalled is gone, but for what else is in the schema.
func TestUninstall(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	at := database.Address{URL: root}
	if _, err := outbox.Uninstall(t.Context(), at); err == nil || !strings.Contains(err.Error(), "bellhop outbox install") {
		t.Errorf("nothing is there: %v", err)
	}
	install(t, root, outbox.InstallOptions{})
	databasetest.Exec(t, root, "CREATE TABLE bellhop.other ()")
	databasetest.Ask(t, root, "SELECT bellhop.publish('t')")
	if n, err := outbox.Uninstall(t.Context(), at); n != 1 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	left := "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('bellhop')"
	if n := databasetest.Ask(t, root, left)[0]; n != int64(1) {
		t.Errorf("%v things are left", n)
	}
	databasetest.Exec(t, root, "DROP TABLE bellhop.other")
	install(t, root, outbox.InstallOptions{})
	if n, err := outbox.Uninstall(t.Context(), at); n != 0 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if there := databasetest.Ask(t, root, "SELECT to_regnamespace('bellhop') IS NOT NULL")[0]; there != false {
		t.Error("the schema is left")
	}
}

// The statements that are printed make the same, twice and in any session.
func TestPrint(t *testing.T) {
	t.Parallel()
	root := databasetest.Database(t)
	name, app := role(t, root)
	text, err := outbox.Print(outbox.InstallOptions{Grant: []string{name}, Relay: []string{`a"b`}, MaxBody: 7})
	storetest.Must(t, err)
	if strings.Contains(text, `\`) || strings.Contains(text, "<no value>") || !strings.Contains(text, `TO "a""b"`) {
		t.Errorf("it has a backslash, or no value:\n%s", text)
	}
	databasetest.Exec(t, root, `CREATE ROLE "a""b"; SET standard_conforming_strings = off;`+text+text)
	databasetest.Ask(t, app, "SELECT bellhop.publish('t', 'x')")
	if got := install(t, root, outbox.InstallOptions{}); got.From != outbox.Version || got.MaxBody != 7 || rows(t, root) != 1 {
		t.Errorf("it is %+v", got)
	}
	databasetest.Exec(t, root, `DROP OWNED BY "a""b"; DROP ROLE "a""b"`)
}

// Publishers notify while the relay sleeps, which is while it holds the lock, and the relay cannot
// fall asleep while one that has not notified is open.
func TestRing(t *testing.T) {
	t.Parallel()
	url := installed(t)
	relay, publisher := connect(t, url), connect(t, url)
	do(t, relay, "LISTEN bellhop_outbox")
	falls := func() (asleep bool) {
		storetest.Must(t, relay.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(1650814060, 1)").Scan(&asleep))
		return asleep
	}
	rung := func() int {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		do(t, relay, "SELECT") // what was sent before has come
		for {
			if _, err := relay.WaitForNotification(ctx); err != nil {
				return n
			}
			n++
		}
	}

	tx := begin(t, publisher)
	do(t, tx, "SELECT bellhop.publish('t')")
	if falls() {
		t.Fatal("the relay falls asleep while a publisher is open that has not rung")
	}
	storetest.Must(t, tx.Commit(t.Context()))
	if n := rung(); n != 0 {
		t.Errorf("the relay is awake, and was rung %d times", n)
	}
	if !falls() {
		t.Fatal("the relay cannot fall asleep")
	}

	tx = begin(t, publisher)
	do(t, tx, "SAVEPOINT s")
	do(t, tx, "SELECT bellhop.publish('t')")
	do(t, tx, "ROLLBACK TO s")
	storetest.Must(t, tx.Commit(t.Context()))
	if n := rung(); n != 0 {
		t.Errorf("for what was rolled back the relay was rung %d times", n)
	}
	tx = begin(t, publisher)
	do(t, tx, "SELECT bellhop.publish('t'), bellhop.publish('u') FROM generate_series(1, 100)")
	if n := rung(); n != 0 {
		t.Errorf("before the commit the relay was rung %d times", n)
	}
	storetest.Must(t, tx.Commit(t.Context()))
	storetest.Eventually(t, "the relay is rung once", func() bool { return rung() == 1 })
	do(t, relay, "SELECT pg_advisory_unlock_all()")

	tx = begin(t, publisher) // a lock of a savepoint is gone with it, and taken anew
	do(t, tx, "SAVEPOINT s")
	do(t, tx, "SELECT bellhop.publish('t')")
	do(t, tx, "ROLLBACK TO s")
	if !falls() {
		t.Fatal("nothing is open, and the relay cannot fall asleep")
	}
	do(t, tx, "SELECT bellhop.publish('t')")
	storetest.Must(t, tx.Commit(t.Context()))
	storetest.Eventually(t, "the relay is rung", func() bool { return rung() == 1 })
}
