package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

// Publish prints what it did with the message that was there.
func TestPublishIfExists(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	publish := func(args ...string) string {
		t.Helper()
		return s.call(append([]string{"publish", "t", "--id", "a", "--body", "x"}, args...)...)
	}
	contains(t, publish("--delay", "1h", "--if-exists", "debounce"), "t a scheduled ", "(in ")
	contains(t, publish("--delay", "2h", "--if-exists", "keep"), ", kept as it is\n")
	contains(t, publish("--delay", "2h", "--if-exists", "replace"), ", replaced, due before: ")
	contains(t, publish("--delay", "3h", "--if-exists", "debounce", "--max-wait", "1d"), ", moved, due before: ")
	var p api.Publication
	s.json(&p, "publish", "t", "--id", "a", "--body", "x", "--if-exists", "keep", "--json")
	if p.Outcome != notify.Kept || p.State != notify.Scheduled {
		t.Errorf("got %+v", p)
	}
	r := s.feed(`{"topic":"t","id":"a","if_exists":"replace","body":"x"}`+"\n"+`{"topic":"t","id":"a","if_exists":"refuse","body":"x"}`, "publish", "--file", "-")
	if r.code != exitFailed || r.out != "published 1, refused 1\n" {
		t.Errorf("got %+v", r)
	}
	contains(t, s.fails(exitFailed, "cancel", "t", "a", "--next"), "no such message")
	if out := s.call("cancel", "t", "a"); out != "t a cancelled, it was ready\n" {
		t.Errorf("got %q", out)
	}
}

// tight returns a table with two spaces between its columns.
func tight(table string) string { return regexp.MustCompile(" {2,}").ReplaceAllString(table, "  ") }

// What follows a leased message is published after it, shown by inspect, and cancelled by
// --next.
func TestPublishThen(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "a", "--unique-for", "1h", "--body", "first")
	out := s.call("work", "t", "--count", "1", "--", self(t), "publish", "t", "--id", "a", "--then", "after", "--delay", "3h", "--lease", "45s", "--body", "second")
	contains(t, out, "t a leased ", ", after the one that is leased\n")
	contains(t, tight(s.call("inspect", "t", "a")), "state  scheduled", "lease  45s", "\nsecond\n")
	s.call("reschedule", "t", "a", "--now")
	script := "$0 publish t --id a --then after --delay 1h --try-timeout 5m --body third && $0 inspect t a && $0 cancel t a --next"
	out = s.call("work", "t", "--count", "1", "--", "sh", "-c", script, self(t))
	contains(t, tight(out), "state  leased", "next due  ", "next try timeout  5m", "next body  third", "t a: the next one is cancelled\n")
	contains(t, s.fails(exitFailed, "inspect", "t", "a"), "no such message")
	s.call("publish", "t", "--id", "b", "--unique-for", "1h", "--body", "x")
	s.call("work", "t", "--count", "1")
	out = tight(s.call("inspect", "t", "b"))
	contains(t, out, "state  done\nid taken until  ")
	if strings.Contains(out, "body") {
		t.Errorf("a message that is gone has a body:\n%s", out)
	}
	contains(t, s.fails(exitFailed, "publish", "t", "--id", "b", "--body", "x"), "t:b: id already in use")
	contains(t, s.call("publish", "t", "--id", "b", "--if-exists", "keep", "--body", "x"), "t b done -, kept as it is\n")
	contains(t, s.call("cancel", "t", "b"), "t b cancelled, it was done\n")
}

// All that a message asks for is shown within 80 columns.
func TestInspectShowsAsks(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "a", "--delay", "1h", "--lease", "45s", "--try-timeout", "5m", "--fail", "drop", "--late-after", "10m", "--late", "bury", "--unique-for", "7d", "--body", "x")
	out := s.call("inspect", "t", "a")
	contains(t, tight(out), "\nlease  45s\ntry timeout  5m\nif it fails  drop\nlate after  10m\nif it is late  bury\nid taken for  168h\n")
	for line := range strings.Lines(out) {
		if len(line) > 81 {
			t.Errorf("%q has %d columns", line, len(line))
		}
	}
}

// A command that exits with 75 puts its message off, which uses up no attempt.
func TestWorkPutsOff(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "backoff_min=1ms", "backoff_max=1ms")
	s.start("serve")
	s.call("publish", "t", "--id", "a", "--attempts", "1", "--body", "x")
	count := filepath.Join(t.TempDir(), "count")
	script := `echo "attempt $MESSAGE_ATTEMPT late $MESSAGE_LATE_MS"; echo x >>"$0"; test $(wc -l <"$0") -gt 3 || { echo not yet >&2; exit 75; }`
	r := s.feed("", "work", "t", "--count", "1", "--", "sh", "-c", script, count)
	if n := strings.Count(r.out, "attempt 1 late "); r.code != 0 || n != 4 {
		t.Errorf("%d calls: %+v", n, r)
	}
	contains(t, r.err, "bellhop: handled 1, failed 0, put off 3\n")
	if c := s.counts("t"); c.Acked != 1 || c.Dead != 0 {
		t.Errorf("counted %+v", c)
	}
}

// A named listener puts a broadcast off, too.
func TestListenPutsOff(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_BACKOFF_MIN=1ms", "BELLHOP_BACKOFF_MAX=1ms")
	s.start("serve").await(1, "msg=elected")
	s.call("broadcast", "t", "--id", "a", "--body", "x")
	count := filepath.Join(t.TempDir(), "count")
	script := `echo "attempt $MESSAGE_ATTEMPT"; echo x >>"$0"; test $(wc -l <"$0") -gt 3 || exit 75`
	r := s.feed("", "listen", "t", "--name", "shop", "--from", "beginning", "--attempts", "1", "--count", "1", "--", "sh", "-c", script, count)
	if n := strings.Count(r.out, "attempt 1\n"); r.code != 0 || n != 4 {
		t.Errorf("%d calls: %+v", n, r)
	}
	contains(t, r.err, "bellhop: handled 1, failed 0, put off 3\n")
}

// A command gets the key of its message.
func TestWorkGetsTheKey(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "ledger", "--id", "a", "--key", "acct-7", "--body", "x")
	contains(t, s.call("inspect", "ledger", "a"), "acct-7")
	contains(t, s.call("find", "key:acct-7"), "a")
	r := s.feed("", "work", "ledger", "--count", "1", "--", "sh", "-c", `echo "key $MESSAGE_KEY, fence $MESSAGE_FENCE"`)
	if !regexp.MustCompile(`key acct-7, fence [1-9]`).MatchString(r.out) {
		t.Errorf("it gets %s", r.out)
	}
}
