package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
)

// The keys that wait are listed with what they wait for, on a terminal in 80 columns.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("keys", "ledger"), "no message is blocked\n")
	s.call("topics", "set", "ledger", "on_dead=stop")
	long := strings.Repeat("a-long-name-of-an-account.", 4)
	for _, key := range []string{"acct-7", "acct-8", "acct-8", long} {
		s.call("publish", "ledger", "--key", key, "--id", "first-of-"+key, "--if-exists", "keep", "--body", "x")
		s.call("publish", "ledger", "--key", key, "--body", "x")
	}
	s.call("work", "ledger", "--count", "1", "--name", "desk-1", "--", "sh", "-c", "exit 65") // buries the oldest
	out := s.call("keys", "ledger", "--limit", "2")
	contains(t, out, "KEY     BLOCKED  OLDEST", "acct-8  2 ", " ago ", " first-of-acct-8, ready\n", "acct-7  1 ", " first-of-acct-7, dead, bars the key\n", "\nand 1 key more; see --limit\n")
	s.call("publish", "ledger", "--key", "acct-7", "--id", "last", "--body", "x")
	contains(t, s.call("inspect", "ledger", "last"), "behind     first-of-acct-7, dead, bars the key\n")
	s.call("cancel", "ledger", "last")
	var got calls.Keys
	s.json(&got, "keys", "ledger", "--sort", "oldest", "--json")
	if got.All != 3 || len(got.Keys) != 3 || got.Keys[0].Key != "acct-7" || got.Keys[0].Behind[0] != (calls.Holder{ID: "first-of-acct-7", State: notify.Dead}) {
		t.Errorf("got %+v", got)
	}
	for line := range strings.Lines(s.onTerminal("keys", "ledger")) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	contains(t, s.call("publish", "ledger", "--key", "acct-8", "--id", "late", "--if-busy", "drop", "--body", "x"), "ledger late dropped: another of its key is under way\n")
	contains(t, s.fails(exitUsage, "keys", "ledger", "--sort", "newest"), `sort "newest"`, "use blocked, oldest")
	contains(t, s.fails(exitUsage, "keys", "ledger", "--limit", "501"), "limit \"501\"", "from 1 to 500")
	contains(t, s.fails(exitUsage, "keys"), "TOPIC is missing")
}
