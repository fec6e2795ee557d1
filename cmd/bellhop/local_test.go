package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
)

// A due time of a zone's wall clock is resolved, and told: of a publish, of a line of a file, of a broadcast and of a reschedule.
func TestLocalDue(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("publish", "t", "--id", "a", "--due", "2099-03-29T02:30", "--zone", "Europe/Berlin", "--body", "x"), "t a scheduled 2099-03-29T01:00:00.000Z (in ")
	r := s.feed(`{"topic":"t","id":"b","due":"2099-10-25T02:30:00","zone":"Europe/Berlin","spread":"1ms","body":"x"}`+"\n"+`{"topic":"t","due":"2099-10-25T02:30:00","body":"x"}`, "publish", "--file", "-")
	if r.code != exitFailed || !strings.Contains(r.out+r.err, "it has no offset; write one") {
		t.Errorf("got %+v", r)
	}
	var b api.Message
	s.json(&b, "inspect", "t", "b", "--json")
	if got := b.Due.UTC().Format("2006-01-02T15:04:05"); got != "2099-10-25T00:30:00" {
		t.Errorf("b is due at %s", got)
	}
	contains(t, s.call("broadcast", "t", "--due", "2099-07-01T08:00", "--zone", "America/New_York", "--body", "x"), " scheduled 2099-07-01T12:00:00.000Z (in ")
	contains(t, s.call("reschedule", "t", "a", "--due", "2099-07-01T08:00", "--zone", "Europe/Berlin"), "t a scheduled 2099-07-01T06:00:00.000Z (in ")
	for args, want := range map[string]string{
		"--due|2099-07-01T08:00":                      "it has no offset; write one",
		"--due|2099-07-01T08:00Z|--zone|UTC":          "write a time such as",
		"--due|2099-07-01T08:00:00Z|--zone|UTC":       "due has an offset, so it needs no zone",
		"--delay|1h|--zone|UTC":                       "it is given beside delay; give one of them",
		"--now|--zone|UTC":                            "it is missing, and the zone UTC is for it",
		"--due|2099-07-01T08:00|--zone|Europe/Berlim": "do you mean Europe/Berlin",
	} {
		contains(t, s.fails(exitUsage, append([]string{"reschedule", "t", "a"}, strings.Split(args, "|")...)...), want)
	}
	contains(t, s.call("inspect", "t", "a"), "2099-07-01T06:00:00.000Z")
}
