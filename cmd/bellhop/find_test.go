package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 4)
	s.call("publish", "order.a", "--id", "1", "--delay", "1h", "--body", "total 4711", "--header", "Tenant=acme")
	contains(t, s.call("find", "state:dead"), "TOPIC  ID  STATE  TIME", "t      1   dead", "exit status 65: broken")
	contains(t, s.call("find", "body~4711"), "order.a  1   scheduled  in ", "total 4711")
	contains(t, s.call("find", `body~"total 47"`, "header.tenant=acme"), "order.a")
	contains(t, s.call("find", "id:none*"), "no messages")
	var found calls.Found
	storetest.Eventually(t, "all are counted, for which a call has some milliseconds", func() bool {
		s.json(&found, "find", "state:dead", "--json", "--limit", "3")
		return found.Of == 4
	})
	if len(found.Messages) != 3 || found.Cursor == "" {
		t.Errorf("got %+v", found)
	}
	cursor := regexp.MustCompile(`more: --cursor (\S+)`).FindStringSubmatch(s.call("find", "state:dead", "--limit", "3"))
	if cursor == nil {
		t.Fatal("there is no cursor")
	}
	contains(t, s.call("find", "state:dead", "--cursor", cursor[1]), "dead")
	for line, want := range map[string]string{
		"find":                                        "TERM is missing",
		"find stat:dead":                              "did you mean state?",
		"find state:dead --all":                       "unexpected flag --all",
		"find state:dead --delay 1h":                  "unexpected flag --delay: it is for an act",
		"find state:dead --dry-run":                   "unexpected flag --dry-run",
		"find state:dead --limit 0":                   "invalid limit 0",
		"find state:dead --requeue --purge":           "none of the others can be",
		"find state:dead --requeue":                   "give --all to mean it, or --dry-run to count them",
		"find state:dead --requeue --cursor x":        "give --all",
		"find id:1 --cursor " + cursor[1]:             "another question",
		"find id:1 --reschedule --delay soon --all":   "write a duration",
		"find state:dead --purge --stop --all":        "stop: purge stops no worker; leave it out, or use cancel",
		"find state:dead --cancel --all":              "cancel works on scheduled, ready and blocked messages",
		"find id:1 --reschedule --due tomorrow --all": "write a time",
		"find id:1 --reschedule --delay= --all":       "--delay is empty; leave it out",
		"find id:1 --reschedule-in 1h --all":          "unknown flag: --reschedule-in: use --reschedule, with --delay or --due",
		"find id:1 --reschedule --all":                "due: it is missing; give delay or due",
	} {
		contains(t, s.fails(exitUsage, strings.Fields(line)...), want)
	}
}

func TestFindActs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 4)
	s.publish("u", 3)
	for _, step := range []struct{ line, want string }{
		{"find topic:t --requeue --dry-run", "matched 4\n"},
		{"find topic:t id:1 --requeue --all", "requeued 1\n"},
		{"find topic:t --purge --all --json", `{"matched":3,"done":3,"looked":3,"of":3}` + "\n"},
		{"find topic:u --reschedule --delay 1h --all", "rescheduled 3\n"},
		{"find state:scheduled --reschedule --due 2199-01-02T15:04:05Z --all", "rescheduled 3\n"},
		{"find due>2199-01-01 --cancel --all", "cancelled 3\n"},
		{"find topic:u --cancel --all", "cancelled 0\n"},
		{"find topic:u --cancel --stop --all", "cancelled 0\n"},
	} {
		if out := s.call(strings.Fields(step.line)...); out != step.want {
			t.Errorf("%s: %q, want %q", step.line, out, step.want)
		}
	}
}

func TestFindExports(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 3)
	file := filepath.Join(t.TempDir(), "found.jsonl")
	if out := s.call("find", "state:dead", "--export", file); out != "exported 3\n" {
		t.Errorf("got %q", out)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("%v, %s", err, text)
	}
	s.call("find", "state:dead", "--purge", "--all")
	contains(t, s.call("publish", "--file", file), "published 3")
}

// On a terminal the number is shown first, and asked.
func TestFindAsks(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 3)
	for _, step := range []struct{ answer, want string }{{"n", "nothing was purged"}, {"y", "purged 3"}} {
		out, _ := s.answers(step.answer+"\n", "find", "state:dead", "--purge")
		contains(t, out, "Purge 3 messages? [y/N]", step.want)
	}
}

func TestFindCompletes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("order.a", 1)
	contains(t, s.call("__complete", "find", ""), "topic:", "state:", "body~")
	contains(t, s.call("__complete", "find", "state:ready,d"), "state:ready,dead", "state:ready,done")
	contains(t, s.call("__complete", "find", "state:dead", "topic:or"), "topic:order.a")
}
