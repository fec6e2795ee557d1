package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/database/databasetest"
)

// What is wrong with a call of outbox is told before the database is asked.
func TestOutboxRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"outbox":         "COMMAND is missing: use install or uninstall",
		"outbox dig":     `unknown command "dig"`,
		"outbox install": "--url is missing: name the database",
		"outbox install --url postgres://u:secret@h/d":                   "--url contains a password, which ps shows to everybody: put ?passfile=FILE behind it, or set PGPASSWORD",
		"outbox install --url postgres://u@h/d?password=secret":          "--url contains a password",
		"outbox install --url mysql://u@h/d":                             "url: it does not begin with postgres://",
		"outbox install --url postgres://u@h/d --max-body much":          `--max-body "much": write a size such as 262144, 256KiB or 1MiB`,
		"outbox install --print --max-body 65MiB --grant=":               "invalid max body 68157440: use 1 to 67108864",
		"outbox install --print --grant=":                                "grant: it is empty; name a role",
		"outbox install x":                                               `unexpected argument "x"`,
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
	if err != nil {
		t.Fatal(err)
	}
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
