package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "hello", "--header", "A=b")
	contains(t, s.call("inspect", "t", "1"), "state      scheduled", "due        ", "(in ", "header A   b", "body       5 bytes", "\nhello\n")
	contains(t, s.fails(exitFailed, "inspect", "t", "2"), "bellhop: inspect t:2: no such message")
	contains(t, s.fails(exitUsage, "inspect", "t", "1", "--state", "dead"), "unexpected flag --state")
	contains(t, s.fails(exitUsage, "inspect", "t", "--state", "gone"), `invalid state "gone"`)
	contains(t, s.fails(exitUsage, "inspect", "t", "--limit", "0"), "invalid limit 0")
	contains(t, s.call("inspect", "t", "--state", "dead"), "no messages\n1 scheduled: bellhop inspect t --state scheduled\n")
	contains(t, s.call("inspect", "none"), "no messages\n")
	s.publish("u", 2)
	contains(t, s.call("inspect", "u"), "no messages\n2 ready: bellhop inspect u --state ready\n")
}

// A leased message tells how far the work on it is.
func TestInspectShowsProgress(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "t", subscribers.ClaimOptions{Max: 1})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	storetest.Must(t, ds[0].Extend(store.WithProgress(t.Context(), store.Progress{Percent: 40, Note: "page 2 of 5"}), 0))
	contains(t, s.call("inspect", "t", "1"), "progress ", " 40 %: page 2 of 5\n")
	contains(t, s.call("inspect", "t", "1", "--json"), `"progress":40,"note":"page 2 of 5"`)
	storetest.Must(t, ds[0].Release(t.Context()))
	if out := s.call("inspect", "t", "1"); strings.Contains(out, "progress") {
		t.Errorf("it was released: %s", out)
	}
}

// A message that is to be cancelled tells since when, and one that no worker has is gone at once.
func TestCancelWithStop(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 2)
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	if ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "t", subscribers.ClaimOptions{Max: 1}); err != nil || len(ds) != 1 || ds[0].ID != "1" {
		t.Fatal(ds, err)
	}
	contains(t, s.call("cancel", "t", "1", "--stop", "--json"), `{"cancelled":false,"was":"leased","stopping":true}`)
	contains(t, s.call("inspect", "t", "1"), "stopping since  ", "leased by")
	contains(t, s.call("inspect", "t", "1", "--json"), `"stopping":"20`)
	contains(t, s.call("cancel", "t", "2", "--stop"), "t 2 cancelled, it was ready\n")
	contains(t, s.fails(exitFailed, "cancel", "t", "2", "--stop"), "no such message")
}

func TestInspectPages(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 5)
	seen := make(map[string]bool)
	for cursor := ""; ; {
		var page api.Page
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
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--delay", "1h", "--body", "x")
	if out := s.call("cancel", "t", "1"); out != "t 1 cancelled, it was scheduled\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.fails(exitFailed, "cancel", "t", "1"), "no such message")
	contains(t, s.fails(exitUsage, "cancel", "t"), "ID is missing")
	s.publish("t", 1)
	contains(t, s.call("cancel", "t", "1", "--next=false"), "t 1 cancelled, it was ready\n")
	s.publish("t", 1)
	var state calls.Cancelled
	if s.json(&state, "cancel", "t", "1", "--json"); state != (calls.Cancelled{Cancelled: true, Was: notify.Ready}) {
		t.Errorf("got %v, want ready", state.Was)
	}
	s.publish("t", 1)
	p := s.start("work", "t", "--", "sh", "-c", "echo began; exec sleep 60")
	p.await(1, "began")
	contains(t, s.fails(exitFailed, "cancel", "t", "1"), "message is leased")
	contains(t, s.fails(exitFailed, "reschedule", "t", "1", "--now"), "message is leased")
}

func TestReschedule(t *testing.T) {
	t.Parallel()
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
	contains(t, s.fails(exitUsage, "reschedule", "t", "1", "--delay", ""), "--delay is empty; leave it out")
	contains(t, s.fails(exitUsage, "reschedule", "t", "1", "--due", "x"), `invalid due "x"`)
	for _, bad := range []string{"--due=1969-01-01T00:00:00Z", "--due=9999-12-31T23:59:59-05:00", "--delay=-1s", "--delay=1x"} {
		_, want, _ := strings.Cut(s.fails(exitUsage, "publish", "t", "--body", "x", bad), "invalid")
		contains(t, strings.SplitN(s.fails(exitUsage, "reschedule", "t", "1", bad), "\n", 2)[0], strings.SplitN(want, "\n", 2)[0])
	}
	contains(t, s.fails(exitFailed, "reschedule", "t", "2", "--now"), "no such message")
}

// kill publishes n messages, and makes them dead letters.
func (s *shell) kill(topic string, n int) {
	s.t.Helper()
	s.publish(topic, n)
	s.call("work", topic, "--concurrency", "4", "--count", fmt.Sprint(n), "--", "sh", "-c", "echo broken >&2; exit 65")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 4)
	contains(t, s.call("dead", "list", "t"), "ID  STATE", "exit status 65: broken (buried by the handler)")
	s.publish("trace", 1)
	s.call("work", "trace", "--count", "1", "--", "sh", "-c", `printf 'Traceback (most recent call last):\n  File "a.py"\nValueError: no such card\n' >&2; exit 65`)
	for _, list := range [][]string{{"dead", "list", "trace"}, {"find", "topic:trace"}} {
		out := s.call(list...)
		contains(t, out, "exit status 65: ValueError: no such card")
		if strings.Contains(out, "Traceback") {
			t.Errorf("%v shows how a traceback begins:\n%s", list, out)
		}
	}
	contains(t, s.fails(exitFailed, "reschedule", "t", "1", "--now"), "message is dead: requeue it instead")
	contains(t, s.call("inspect", "t", "1"), "first due ", "died ")
	s.call("publish", "later", "--id", "1", "--delay", "1h", "--body", "x")
	if out := s.call("inspect", "later", "1"); strings.Contains(out, "first due") {
		t.Errorf("a message due for the first time is shown with two due times:\n%s", out)
	}
	if out := s.call("dead", "requeue", "t", "1"); out != "requeued 1\n" {
		t.Errorf("got %q", out)
	}
	s.kill("left", 1)
	if out := s.call("dead", "purge", "t", "2", "--json"); out != `{"matched":1,"done":1,"looked":1,"of":1}`+"\n" {
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
	if err := json.Unmarshal([]byte(lines[:strings.Index(lines, "\n")]), &line); err != nil || line.Reason == "" || line.Died == nil || line.FirstDue == nil || line.Body == nil {
		t.Errorf("got %+v, %v", line, err)
	}
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	if out := s.call("dead", "export", "t", "--output", path); out != "exported 2\n" {
		t.Errorf("got %q", out)
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != lines {
		t.Errorf("the file holds %q, %v, want %q", written, err, lines)
	}

	if out := s.call("dead", "purge", "t", "--all"); out != "purged 2\n" {
		t.Errorf("got %q", out)
	}
	if r := s.feed("", "dead", "export", "t", "--output", path, "--redis", "redis://127.0.0.1:1"); r.code == 0 || !strings.Contains(r.err, path+" was not written") {
		t.Errorf("without Redis: exit %d, %q", r.code, r.err)
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != lines {
		t.Errorf("then the file holds %q, %v, want %q", written, err, lines)
	}
	pipe, read := filepath.Join(t.TempDir(), "pipe"), make(chan string, 1)
	storetest.Must(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		all, _ := os.ReadFile(pipe)
		read <- string(all)
	}()
	if r := s.feed("", "dead", "export", "left", "--output", pipe); r.code != 0 || r.out != "" || r.err != "exported 1\n" {
		t.Errorf("into a pipe: exit %d, %q, %q", r.code, r.out, r.err)
	}
	if got := storetest.Receive(t, "what the pipe takes", read); got != s.call("dead", "export", "left") {
		t.Errorf("a pipe takes %q", got)
	}
	if out := s.call("publish", "--file", path); out != "published 2, refused 0\n" {
		t.Errorf("an export is published with %q", out)
	}
	s.kill("u", 3)
	if out := s.call("dead", "requeue", "u", "--all", "--json"); out != `{"matched":3,"done":3,"looked":3,"of":3}`+"\n" {
		t.Errorf("got %q", out)
	}
}

// Ids that are not dead are reported, each with the reason; the others are changed all the same.
func TestNotDead(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kill("t", 3)
	s.call("publish", "t", "--id", "alive", "--delay", "1h", "--body", "x")
	none := "bellhop: t has no dead letter nope: see 'bellhop dead list t'\n"
	alive := "bellhop: alive of t is not dead but scheduled: see 'bellhop inspect t alive'\n"
	for _, verb := range []string{"requeue", "purge"} {
		if r := s.feed("", "dead", verb, "t", "nope"); r.code != exitFailed || r.out != "" || r.err != none {
			t.Errorf("dead %s: exit %d, %q, %q", verb, r.code, r.out, r.err)
		}
	}
	if r := s.feed("", "dead", "requeue", "t", "nope", "1", "alive", "1"); r.code != exitFailed || r.out != "requeued 1\n" || r.err != none+alive {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Must(t, store.Client().HDel(t.Context(), store.Keys().Messages(), "t:2").Err())
	contains(t, s.fails(exitFailed, "dead", "requeue", "t", "2"), "2 of t has lost its record", "'bellhop dead purge t 2'")
	if r := s.feed("", "dead", "purge", "t", "2", "nope", "3", "--json"); r.code != exitFailed || r.out != `{"matched":2,"done":2,"looked":3,"of":3}`+"\n" || r.err != none {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}

// Without a topic, dead letters are counted by topic and reason, most frequent first.
func TestDeadOfAllTopics(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("dead", "list"), "no dead letters\n")
	if out := s.call("dead", "list", "--json"); out != "[]\n" {
		t.Errorf("got %q", out)
	}
	s.kill("a.few", 2)
	s.kill("many", 3)
	s.publish("named", 2)
	s.call("work", "named", "--count", "2", "--", "sh", "-c", `echo "no such order-471$MESSAGE_ID" >&2; exit 65`)
	want := `DEAD  TOPIC  REASON
3     many   exit status 65: broken (buried by the handler)
2     a.few  exit status 65: broken (buried by the handler)
2     named  exit status 65: no such order-# (buried by the handler)

7 dead letters of 3 topics
`
	if diff := cmp.Diff(want, s.call("dead", "list")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	contains(t, s.call("dead", "list", "--limit", "1"), "3     many ", "7 dead letters of 3 topics; 2 reasons more: --limit 3\n")
	var reasons []reasons.Reason
	if s.json(&reasons, "dead", "list", "--json"); len(reasons) != 3 || reasons[0].Dead != 3 || reasons[2].Topic != "named" {
		t.Errorf("got %+v", reasons)
	}
}

func TestDeadRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"dead":                     "COMMAND is missing",
		"dead bury t":              `unknown command "bury"`,
		"dead bury":                `unknown command "bury"`,
		"dead list --cursor x":     "unexpected flag --cursor: it is for the list of a TOPIC",
		"dead list --limit 0":      "invalid limit 0",
		"dead requeue t nope.é":    "invalid id",
		"dead requeue":             "TOPIC is missing",
		"dead requeue t":           "give --all to mean it, or --dry-run to count them",
		"dead purge t":             "give --all to mean it, or --dry-run to count them",
		"dead purge t 1 --all":     `unexpected argument "1": --all, --dry-run and --cursor are for all`,
		"dead purge t --all --yes": "unknown flag: --yes: --all does it without asking",
		"dead purge t.* --all":     `invalid topic "t.*"`,
		"dead purge a/b --all":     `invalid topic "a/b"`,
		"dead list t --limit 0":    "invalid limit 0",
		"dead export a/b":          `invalid topic "a/b"`,
		"dead list t --cursor x":   `invalid cursor "x"`,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}
