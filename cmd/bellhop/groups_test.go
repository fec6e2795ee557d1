package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
)

// Groups are listed and shown with what they wait for, on a terminal in 80 columns, and forgotten.
func TestGroups(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("groups", "row.import"), "no group\n")
	for _, id := range []string{"r-17", "r-40", "r-41"} {
		s.call("publish", "row.import", "--id", id, "--group", "import-7", "--body", "x")
	}
	contains(t, s.call("groups", "row.import", "import-7"), "waits for 3: r-17 ready, r-40 ready, r-41 ready; then nothing: no message waits for it\n")
	s.call("publish", "import.done", "--id", "import-7-done", "--after-group", "row.import:import-7", "--body", "x")
	s.call("publish", "row.import", "--group", strings.Repeat("a-long-name-", 9), "--id", "r", "--body", "x")
	s.call("work", "row.import", "--count", "1", "--name", "desk-1", "--", "sh", "-c", "exit 65") // buries the oldest
	contains(t, s.call("groups", "row.import"), "NAME ", "import-7 ", "  waiting  3     1     0      0        0          import.done:import-7-done  ", " ago\n", "  open     1     0 ")
	contains(t, s.call("groups", "row.import", "import-7"), "waits for 3: r-40 ready, r-41 ready, r-17 dead (", "); then import.done:import-7-done\n")
	for line := range strings.Lines(s.onTerminal("groups", "row.import")) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	contains(t, s.call("groups", "row.import", "--limit", "1"), "\nmore: --cursor 1\n")
	var got calls.WaitingGroup
	s.json(&got, "groups", "row.import", "import-7", "--json")
	if got.State != store.GroupWaiting || got.Left != 3 || len(got.Behind) != 3 || got.Behind[2].Reason == "" {
		t.Errorf("got %+v", got)
	}
	s.call("work", "row.import", "--count", "2", "--name", "desk-1", "--", "sh", "-c", "exit 65")
	contains(t, s.call("groups", "row.import", "import-7"), "  held   3     3 ")
	contains(t, s.fails(exitUsage, "groups", "row.import", "import-7", "--limit", "1"), "--limit is for the list of groups")
	contains(t, s.fails(exitUsage, "groups"), "TOPIC is missing")
	contains(t, s.fails(exitUsage, "groups", "row.import", "a b"), `name "a b"`, "not ~ first")
	contains(t, s.fails(exitFailed, "groups", "row.import", "none"), "none of row.import: no group of the topic has this name")
	contains(t, s.fails(exitUsage, "groups", "forget", "row.import", "import-7"), "give --yes to mean it")
	contains(t, s.call("groups", "forget", "row.import", "import-7", "--yes"), "forgot import-7 of row.import: 3 messages left it, and import.done:import-7-done is cancelled\n")
	contains(t, s.call("inspect", "row.import", "r-40"), "dead")
}
