package main

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is wrong with a call of outbox is told before the database is asked.
func TestOutboxRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"outbox":         "no outbox is configured: set BELLHOP_OUTBOX_URL",
		"outbox dig":     `unknown command "dig": use install, uninstall, refused, retry or purge`,
		"outbox refused": "no outbox is configured",
		"outbox retry":   "SEQ is missing: give numbers of rows, as bellhop outbox refused lists them, or --all",
		"outbox retry 1": "no outbox is configured",
		"outbox purge":   "or --all or --waiting",
		"outbox install": "--url is missing: name the database",
		"outbox install --url postgres://u:secret@h/d":                   "--url contains a password, which ps shows to everybody: put ?passfile=FILE behind it, or set PGPASSWORD",
		"outbox install --url postgres://u@h/d?password=secret":          "--url contains a password",
		"outbox install --url mysql://u@h/d":                             "url: it does not begin with postgres://",
		"outbox install --url postgres://u@h/d --max-body much":          `--max-body "much": write a size such as 262144, 256KiB or 1MiB`,
		"outbox install --print --max-body 65MiB --grant=":               "invalid max body 68157440: use 1 to 67108864",
		"outbox install --print --grant=":                                "grant: it is empty; name a role",
		"outbox install x":                                               `unexpected argument "x"`,
		"outbox retry 1 --all":                                           "give one of SEQ, --all",
		"outbox purge --all --waiting --yes":                             "give one of SEQ, --all, --waiting",
		"outbox uninstall --yes":                                         "--url is missing",
		"outbox uninstall --url postgres://u@h/d":                        "messages that were not published yet go with the outbox: give --yes to mean it",
		"outbox uninstall --url postgres://u@h/d?sslmode=maybe --yes":    "sslmode is invalid",
		"outbox install --url postgres://u@h/d --json":                   "the command has no answer in JSON",
		"outbox install --print --relay bellhop --max-body 1MiB --yes x": "unknown flag: --yes",
	} {
		said := s.fails(exitUsage, strings.Fields(args)...)
		contains(t, said, want)
		if strings.Contains(said, "secret") {
			t.Errorf("%s: it says %s", args, said)
		}
	}
}

// An outbox is made, made again and removed, with the password from the environment.
func TestOutboxInstall(t *testing.T) {
	root := databasetest.Database(t)
	u, err := url.Parse(root)
	storetest.Must(t, err)
	password, _ := u.User.Password()
	t.Setenv("PGPASSWORD", password) // the driver reads it
	u.User = url.User(u.User.Username())
	s := newShell(t)
	contains(t, s.call("outbox", "install", "--url", u.String(), "--max-body", "1MiB"), "made the outbox, id ", ", version 1, with bodies of up to 1MiB")
	contains(t, s.call("outbox", "install", "--url", u.String()), "the outbox was there, version 1; installed it again, id ", "up to 1MiB")
	databasetest.Ask(t, root, "SELECT bellhop.publish('t')")
	contains(t, s.call("outbox", "uninstall", "--url", u.String(), "--yes"), "removed the outbox, and with it 1 message\n")
	contains(t, s.fails(exitFailed, "outbox", "uninstall", "--url", u.String(), "--yes"), "the database has no outbox; make one: bellhop outbox install")
	databasetest.Exec(t, root, s.call("outbox", "install", "--print"))
	databasetest.Ask(t, root, "SELECT bellhop.publish('t')")
	contains(t, s.fails(exitFailed, "outbox", "install", "--url", "postgres://u@127.0.0.1:1/d"), "outbox at postgres://u@127.0.0.1:1/d: install: ", "or name another in its URL")
}

// What waits and what was refused is shown, retried and purged, of several outboxes by their databases.
func TestOutbox(t *testing.T) {
	t.Parallel()
	urls := []string{databasetest.Database(t), databasetest.Database(t)}
	for _, url := range urls {
		_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
		storetest.Must(t, err)
	}
	databasetest.Exec(t, urls[0], "SELECT bellhop.publish('order.timeout', 'secret', id => 'order-' || n) FROM generate_series(1, 4) AS n")
	databasetest.Exec(t, urls[0], "UPDATE bellhop.outbox SET refused = 'body of 300000 bytes; at most 262144 are allowed, since BELLHOP_MAX_BODY is 256KiB'; SELECT bellhop.publish('t')")
	one, both := newShell(t, "BELLHOP_OUTBOX_URL="+urls[0]), newShell(t, "BELLHOP_OUTBOX_URL="+urls[0]+" "+urls[1])
	contains(t, one.call("outbox"), "waiting     1, the oldest for ", "\nrefused     4\n", "\nrelayed by  nobody; run bellhop serve")
	if out := one.call("outbox", "--json"); !strings.HasPrefix(out, `{"outboxes":[{"database":"postgres://`) || !strings.Contains(out, `"waiting":1,`) {
		t.Errorf("got %s", out)
	}
	contains(t, both.call("outbox"), "waiting     1, ", "waiting     0\nrefused     0\n")
	contains(t, one.call("outbox", "refused"), "SEQ  CALLED ", "\n1    20", "order.timeout  order-1  body of 300000 bytes")
	contains(t, both.call("outbox", "refused", "--limit", "1"), "DATABASE\n", "postgres://", "\nmore: --cursor 0-1\n")
	for _, s := range []*shell{one, both} {
		for line := range strings.Lines(s.onTerminal("outbox", "refused")) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q has %d columns", line, n)
			}
		}
	}
	contains(t, one.call("outbox", "refused", "--cursor", "0-3", "--json"), `{"refused":[{"database":"postgres://`, `"seq":4,"topic":"order.timeout","id":"order-4"`)
	contains(t, one.fails(exitFailed, "outbox", "retry", "1", "5"), "no row 5 is refused, so nothing was changed; see bellhop outbox refused")
	contains(t, both.fails(exitUsage, "outbox", "retry", "1"), "database: it is missing, and there are several outboxes; give that of the rows")
	contains(t, one.fails(exitUsage, "outbox", "retry", "one"), `ids "one"`)
	contains(t, one.fails(exitUsage, "outbox", "purge", "1"), "give --yes to mean it")
	contains(t, one.fails(exitUsage, "outbox", "purge", "--waiting", "--yes"), "give the time until which what waits is removed")
	for args, want := range map[string]string{"retry 1": "retried 1\n", "purge 2 --yes": "purged 1\n"} {
		if out := one.call(append([]string{"outbox"}, strings.Fields(args)...)...); out != want {
			t.Errorf("%s: got %q", args, out)
		}
	}
	for _, test := range [][2]string{
		{"purge --waiting --before 1h --yes --json", `{"count":0}` + "\n"},
		{"purge --waiting --before 0s --yes", "purged 2\n"},
		{"retry --all", "retried 2\n"},
		{"purge --all --yes", "purged 0\n"},
		{"refused", "nothing is refused\n"},
	} {
		if out := both.call(append([]string{"outbox"}, strings.Fields(test[0])...)...); out != test[1] {
			t.Errorf("%s: got %q", test[0], out)
		}
	}
}
