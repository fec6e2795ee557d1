package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

func TestInspect(t *testing.T) {
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "hello", "--header", "A=b")
	contains(t, s.call("inspect", "t", "1"), "state      scheduled", "due        ", "(in ", "header A   b", "body       5 bytes", "\nhello\n")
	contains(t, s.fails(exitFailed, "inspect", "t", "2"), "bellhop: inspect t:2: no such message")
	contains(t, s.fails(exitUsage, "inspect", "t", "1", "--state", "dead"), "unexpected flag --state")
	contains(t, s.fails(exitUsage, "inspect", "t", "--state", "gone"), `invalid state "gone"`)
	contains(t, s.fails(exitUsage, "inspect", "t", "--limit", "0"), "invalid limit 0")
	contains(t, s.call("inspect", "t", "--state", "dead"), "no messages")
}

func TestInspectPages(t *testing.T) {
	s := newShell(t)
	s.publish("t", 5)
	seen := make(map[string]bool)
	for cursor := ""; ; {
		var page pageJSON
		s.json(&page, "inspect", "t", "--state", "ready", "--limit", "2", "--cursor", cursor, "--json")
		for _, m := range page.Messages {
			seen[m.ID] = true
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d messages are listed, want 5", len(seen))
	}
	contains(t, s.call("inspect", "t", "--state", "ready", "--limit", "2"), "ID  STATE", "more: --cursor ")
}

func TestCancel(t *testing.T) {
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "x")
	if out := s.call("cancel", "t", "1"); out != "t 1 cancelled, it was scheduled\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.fails(exitFailed, "cancel", "t", "1"), "no such message")
	contains(t, s.fails(exitUsage, "cancel", "t"), "ID is missing")
	s.publish("t", 1)
	var state struct{ State notify.State }
	if s.json(&state, "cancel", "t", "1", "--json"); state.State != notify.Ready {
		t.Errorf("got %v, want ready", state.State)
	}
	s.publish("t", 1)
	p := s.start("work", "t", "--", "sh", "-c", "echo began; exec sleep 60")
	p.await(1, "began")
	contains(t, s.fails(exitFailed, "cancel", "t", "1"), "message is leased")
	contains(t, s.fails(exitFailed, "reschedule", "t", "1", "--now"), "message is leased")
}

func TestReschedule(t *testing.T) {
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "x")
	contains(t, s.call("reschedule", "t", "1", "--delay", "3h"), "t 1 scheduled ", "(in ")
	var p notify.Publication
	s.json(&p, "reschedule", "t", "1", "--due", "2100-01-01T00:00:00Z", "--json")
	if !p.Due.Equal(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %+v", p)
	}
	contains(t, s.call("reschedule", "t", "1", "--now"), "t 1 ready ")
	contains(t, s.fails(exitUsage, "reschedule", "t", "1"), "give one of --delay, --due and --now")
	contains(t, s.fails(exitUsage, "reschedule", "t", "1", "--delay", "1s", "--now"), "give one of --delay, --due and --now")
	contains(t, s.fails(exitUsage, "reschedule", "t", "1", "--delay", ""), "no new due time")
	contains(t, s.fails(exitUsage, "reschedule", "t", "1", "--due", "x"), `invalid due "x"`)
	contains(t, s.fails(exitFailed, "reschedule", "t", "2", "--now"), "no such message")
}

// kill makes dead letters of n messages.
func (s *shell) kill(topic string, n int) {
	s.t.Helper()
	s.publish(topic, n)
	s.call("work", topic, "--concurrency", "4", "--count", fmt.Sprint(n), "--", "sh", "-c", "echo broken >&2; exit 65")
}

func TestDeadLetters(t *testing.T) {
	s := newShell(t)
	s.kill("t", 4)
	contains(t, s.call("dead", "list", "t"), "ID  STATE", "exit status 65: broken (buried by the handler)")
	contains(t, s.fails(exitFailed, "reschedule", "t", "1", "--now"), "message is dead: requeue it instead")
	if out := s.call("dead", "requeue", "t", "1", "no-such-id"); out != "requeued 1\n" {
		t.Errorf("got %q", out)
	}
	if out := s.call("dead", "purge", "t", "2", "--json"); out != `{"purged":1}`+"\n" {
		t.Errorf("got %q", out)
	}
	if c := s.counts("t"); c.Dead != 2 || c.Ready != 1 {
		t.Errorf("got %+v, want 2 dead and 1 ready", c)
	}

	lines := s.call("dead", "export", "t")
	if n := strings.Count(lines, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, lines)
	}
	var line notify.Line
	if err := json.Unmarshal([]byte(lines[:strings.Index(lines, "\n")]), &line); err != nil || line.Reason == "" || line.Died == nil || line.Body == "" {
		t.Errorf("got %+v, %v", line, err)
	}
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	if out := s.call("dead", "export", "t", "--output", path); out != "exported 2\n" {
		t.Errorf("got %q", out)
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != lines {
		t.Errorf("the file holds %q, %v, want %q", written, err, lines)
	}

	if out := s.call("dead", "purge", "t", "--all", "--yes"); out != "purged 2\n" {
		t.Errorf("got %q", out)
	}
	if out := s.call("publish", "--file", path); out != "published 2, refused 0\n" {
		t.Errorf("an export is published with %q", out)
	}
	s.kill("u", 3)
	if out := s.call("dead", "requeue", "u", "--all", "--json"); out != `{"requeued":3}`+"\n" {
		t.Errorf("got %q", out)
	}
}

func TestDeadRefuses(t *testing.T) {
	s := newShell(t)
	for args, want := range map[string]string{
		"dead":                       "COMMAND is missing",
		"dead bury t":                `unknown command "bury"`,
		"dead bury":                  `unknown command "bury"`,
		"dead list":                  "TOPIC is missing",
		"dead requeue":               "TOPIC is missing",
		"dead requeue t":             "no ids: name some, or give --all",
		"dead purge t":               "no ids: name some, or give --all",
		"dead purge t 1 --all":       "give ids or --all, not both",
		"dead purge t --all":         "give --yes",
		"dead purge a/b --all --yes": `invalid topic "a/b"`,
		"dead list t --limit 0":      "invalid limit 0",
		"dead export a/b":            `invalid topic "a/b"`,
		"dead list t --cursor x":     `invalid cursor "x"`,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}
