package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// Times are printed in UTC for programs, wherever they run, and in the local zone on a terminal.
func TestTimes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.start("serve").await(1, "msg=elected")
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--ttl", "1h", "--body", "x")
	s.publish("work", 2)
	s.publish("dead", 1)
	s.call("work", "dead", "--count", "1", "--", "sh", "-c", "exit 65")
	s.call("broadcast", "t", "--body", "x")
	s.call("listen", "t", "--from", "beginning", "--count", "1")
	p := s.start("listen", "t", "--name", "n", "--json", "--count", "1")
	p.await(1, "msg=listening")
	s.call("broadcast", "t", "--body", "x")
	p.ends(exitDone)
	shown := []string{"inspect t 1", "inspect t", "dead list dead"}
	if storetest.Shards() == 1 { // the table of several has ages
		shown = append(shown, "carrier")
	}
	calls := append([]string{
		"inspect t 1", "inspect t 1 --json", "inspect t", "publish t --id 2 --delay 1h --body x", "publish t --id 3 --delay 1h --body x --json",
		"reschedule t 1 --delay 2h", "dead list dead", "dead list dead --json", "dead export dead", "export -", "carrier --json", "listeners --json",
		"work work --count 1 --json", "work work --count 1 -- sh -c", "listen t --from beginning --count 1 --json",
	}, shown...)
	local := regexp.MustCompile(`\d\+\d\d:\d\d\b`)
	for _, call := range calls {
		args := strings.Fields(call)
		if strings.HasSuffix(call, "-c") {
			args = append(args, `echo "$MESSAGE_DUE"`)
		}
		if out := s.call(args...); local.MatchString(out) || !strings.Contains(out, "Z") {
			t.Errorf("bellhop %s prints times that are not in UTC:\n%s", call, out)
		}
	}
	for _, call := range shown {
		if out := s.onTerminal(strings.Fields(call)...); !strings.Contains(out, "+09:00") {
			t.Errorf("on a terminal bellhop %s prints times that are not local:\n%s", call, out)
		}
	}
	if out := s.onTerminal("inspect", "t", "1", "--json"); local.MatchString(out) {
		t.Errorf("on a terminal JSON has times that are not in UTC:\n%s", out)
	}
}
