package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	out := s.call("publish", "order.timeout", "--id", "a-1", "--delay", "30m", "--body", "hello",
		"--header", "X-Shop=main", "--header", "Note=a=b", "--content-type", "text/plain", "--ttl", "1h", "--attempts", "3")
	contains(t, out, "order.timeout a-1 scheduled ", "(in ")
	var info api.Message
	s.json(&info, "inspect", "order.timeout", "a-1", "--json")
	if string(info.Bytes()) != "hello" || info.Headers["X-Shop"] != "main" || info.Headers["Note"] != "a=b" || info.ContentType != "text/plain" ||
		info.MaxAttempts != 3 || info.State != notify.Scheduled || info.Expires == nil || info.Expires.Sub(*info.Due) != time.Hour {
		t.Errorf("got %+v", info)
	}
	contains(t, s.fails(exitFailed, "publish", "order.timeout", "--id", "a-1", "--body", "x"), "order.timeout:a-1: id already in use")

	var p notify.Publication
	s.json(&p, "publish", "order.timeout", "--due", "2100-01-01T00:00:00Z", "--body", "x", "--json")
	if p.Due.UTC().Year() != 2100 || p.State != notify.Scheduled || p.ID == "" {
		t.Errorf("got %+v", p)
	}
}

// What waits for a group says how many are left.
func TestPublishAfterGroup(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("publish", "row.import", "--id", "r-17", "--group", "import-7", "--body", "x"), "row.import r-17 ready ")
	done := []string{"publish", "row.import", "--id", "done", "--after-group", "row.import:import-7", "--body", "x"}
	contains(t, s.call(done...), "row.import done scheduled, after its group, of which 1 is left\n")
	contains(t, s.call("inspect", "row.import", "done"), "scheduled, after row.import:import-7, of which 1 is left\n")
	contains(t, s.call("reschedule", "row.import", "done", "--delay", "1h"), "row.import done scheduled ", "(in ")
	contains(t, s.call(append(done, "--if-exists", "keep")...), "or after its group, of which 1 is left, kept as it is\n")
	contains(t, s.fails(exitFailed, append(done, "--id", "other")...), "group has its callback: row.import:done of row.import:import-7; cancel that")
	contains(t, s.fails(exitUsage, "publish", "row.import", "--after-group", "import-7", "--body", "x"), "write TOPIC:GROUP, such as row.import:import-7")
}

func TestPublishFromStandardInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	body := "two lines\n\x00\xff and bytes\n"
	if r := s.feed(body, "publish", "t", "--id", "1", "--delay", "1h"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	var info api.Message
	s.json(&info, "inspect", "t", "1", "--json")
	if string(info.BodyBase64) != body {
		t.Errorf("the body is %q, want %q", info.BodyBase64, body)
	}
}

func TestPublishToFullRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--maxmemory", "50mb", "--maxmemory-policy", "noeviction")
	s := newShell(t, "BELLHOP_REDIS_URL="+redis.URL(), "BELLHOP_MEMORY_SHARE=1%")
	contains(t, s.fails(exitFailed, "publish", "t", "--id", "a", "--body", "x"), "publish t:a: ", "redis is full: ", "1% are for messages; have some handled")
	contains(t, s.fails(exitFailed, "broadcast", "t", "--body", "x"), "redis is full: ")
	r := s.feed(`{"topic":"t","body":"x"}`+"\n"+`{"topic":"t","body":"y"}`, "publish", "--file", "-")
	if r.code != exitFailed || !strings.Contains(r.err, "redis is full: ") {
		t.Errorf("got %+v", r)
	}
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_MAX_BODY=10B")
	for _, test := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{}, "x", "TOPIC is missing"},
		{[]string{"t", "more"}, "x", `unexpected argument "more"`},
		{[]string{"t", "--nonsense"}, "x", "unknown flag: --nonsense"},
		{[]string{"a b"}, "x", `invalid topic "a b"`},
		{[]string{"t", "--id", "a b"}, "x", `invalid id "a b"`},
		{[]string{"t"}, "", "invalid body: standard input is empty; give --body ''"},
		{[]string{"t"}, "01234567890", "invalid body: more than 10 bytes"},
		{[]string{"t", "--body", "01234567890"}, "", "invalid body: 11 bytes; at most 10"},
		{[]string{"t", "--delay", "soon"}, "x", `invalid delay "soon"`},
		{[]string{"t", "--delay", "-1s"}, "x", "invalid delay -1s: it is negative"},
		{[]string{"t", "--delay", "9999999h"}, "x", `invalid delay "9999999h"`},
		{[]string{"t", "--delay", "1s", "--due", "2100-01-01T00:00:00Z"}, "x", "invalid delay and due: both are given"},
		{[]string{"t", "--due", "tomorrow"}, "x", `invalid due "tomorrow": write a time such as 2030-01-02T15:04:05Z`},
		{[]string{"t", "--due", "9999-12-31T23:59:59-10:00"}, "x", "it is past the year 9999"},
		{[]string{"t", "--due", "2030-01-02T08:00"}, "x", "invalid due 2030-01-02T08:00:00: it has no offset; write one"},
		{[]string{"t", "--due", "2030-01-02T08:00:00Z", "--zone", "UTC"}, "x", "invalid zone UTC: due has an offset, so it needs no zone"},
		{[]string{"t", "--due", "2030-01-02T08:00", "--zone", "berlin"}, "x", "do you mean Europe/Berlin"},
		{[]string{"t", "--zone", "UTC"}, "x", "invalid due: it is missing, and the zone UTC is for it"},
		{[]string{"t", "--spread", "0s"}, "x", "invalid spread 0s: use 1ms to 24h"},
		{[]string{"t", "--ttl", "-1s"}, "x", "invalid ttl"},
		{[]string{"t", "--attempts", "-1"}, "x", `invalid attempts "-1": write a whole number from 1 to 1000000`},
		{[]string{"t", "--header", "x"}, "x", `invalid header "x": write NAME=VALUE`},
		{[]string{"t", "--header", "a=1", "--header", "a=2"}, "x", "invalid header a: it is given twice"},
		{[]string{"t", "--if-exists", "debounce", "--id", "a"}, "x", "invalid delay: it is missing; debounce puts the message off by it"},
		{[]string{"t", "--if-exists", "debounce", "--id", "a", "--delay", "1m", "--max-wait", "1s"}, "x", "invalid max_wait 1s: it is less than the delay, 1m0s"},
		{[]string{"t", "--unique-for", "1h"}, "x", "invalid unique_for 1h0m0s: the id is missing"},
		{[]string{"t", "--late", "drop"}, "x", "invalid late drop: late_after is missing"},
		{[]string{"t", "--late-after", "1m", "--late", "mark"}, "x", `invalid late "mark": use bury, drop, or leave late_after out`},
		{[]string{"t", "--lease", "1ms", "--try-timeout", "25h", "--fail", "x", "--then", "after"}, "x", "invalid lease 1ms: use 100ms to 24h\nbellhop: invalid try_timeout 25h: use 100ms to 24h\nbellhop: invalid fail \"x\": use bury, drop\nbellhop: invalid then after: the id is missing"},
		{[]string{"t", "--file", "-"}, "x", "with --file each line names its topic"},
		{[]string{"--file", "-", "--delay", "1s"}, "x", "unexpected flag --delay"},
		{[]string{"--file", ""}, "x", "--file is empty"},
	} {
		r := s.feed(test.stdin, append([]string{"publish"}, test.args...)...)
		if r.code != exitUsage || !strings.Contains(r.err, test.want) || !strings.HasPrefix(r.err, "bellhop: ") || r.out != "" {
			t.Errorf("publish %q: exit %d, %s, want exit 2 and %q", test.args, r.code, r.err, test.want)
		}
	}
	if out := s.call("topics"); !strings.Contains(out, "no topic") {
		t.Errorf("something was published:\n%s", out)
	}
}

func TestPublishFile(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var lines strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&lines, `{"topic":"bulk","id":"%d","delay":"1h","body":"message %d"}`+"\n\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "messages.jsonl")
	storetest.Must(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	if out := s.call("publish", "--file", path); out != "published 1200, refused 0\n" {
		t.Errorf("got %q", out)
	}
	r := s.feed(lines.String(), "publish", "--file", "-", "--json")
	if r.code != exitFailed || r.out != `{"published":0,"refused":1200}`+"\n" {
		t.Errorf("exit %d, %q: want all refused", r.code, r.out)
	}
	if n := strings.Count(r.err, "\n"); n != listedFaults+1 {
		t.Errorf("%d lines of faults, want %d", n, listedFaults+1)
	}
	contains(t, r.err, "line 1: publish bulk:0: id already in use", "line 39: ")
}

func TestPublishFileReportsEachFault(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_MAX_BODY=1KiB")
	lines := []string{
		`{"topic":"bulk","id":"1","body":"x"}`,
		`nonsense`,
		``,
		`{"topic":"bulk","id":"2","body":"x","dely":"1s"}`,
		`{"topic":"b ulk","body":"x"}`,
		`{"topic":"bulk","body":"` + strings.Repeat("x", 1025) + `"}`,
		`{"topic":"bulk","body":"` + strings.Repeat("x", 100_000) + `"}`,
		`{"topic":"bulk","id":"3","body_base64":"/w=="}`, // no newline at the end
	}
	r := s.feed(strings.Join(lines, "\n"), "publish", "--file", "-")
	if r.code != exitFailed || r.out != "published 2, refused 5\n" {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	contains(t, r.err, "line 2: invalid line", `line 4: invalid line: the field "dely" is unknown`, `line 5: invalid topic "b ulk"`,
		"line 6: invalid body: 1025 bytes", "line 7: invalid line: it is longer than")
}

// The lines of a stream are published as they come, not when it ends.
func TestPublishFileDoesNotHoldBack(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.start("publish", "--file", "-")
	for i := 1; i <= 3; i++ {
		storetest.Must(t, storetest.ErrOf(fmt.Fprintln(p.in, `{"topic":"bulk","delay":"1h","body":"x"}`)))
		storetest.Eventually(t, "the line is published", func() bool { return s.counts("bulk").Scheduled == int64(i) })
	}
	p.in.Close()
	p.ends(exitDone)
	contains(t, p.said(), "published 3, refused 0")
}

func TestPublishFileStopsWhenRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL())
	p := s.start("publish", "--file", "-")
	send := func(n int) {
		for range n {
			storetest.Must(t, storetest.ErrOf(fmt.Fprintln(p.in, `{"topic":"bulk","delay":"1h","body":"x"}`)))
		}
	}
	send(bulkBatch)
	storetest.Eventually(t, "the first lines are published", func() bool {
		return strings.Contains(s.call("topics"), fmt.Sprintf("bulk   %d", bulkBatch))
	})
	own.Kill()
	send(bulkBatch)
	p.in.Close()
	p.ends(exitFailed)
	contains(t, p.said(), "redis at "+own.URL(), "connection refused", fmt.Sprintf("lines 1 to %d are published or refused", bulkBatch),
		fmt.Sprintf("published %d, refused 0", bulkBatch))
}

func TestPublishFileIsInterrupted(t *testing.T) {
	store := storetest.Open(t)
	s := &session{config: daemon.Config{MaxBody: notify.DefaultMaxBody}, store: store, pub: storetest.Publisher(t, store)}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 100 { // it is left to chance which end it notices first
		a := &app{in: strings.NewReader(`{"topic":"t","body":"x"}`), out: io.Discard, err: io.Discard}
		if err := a.publishFile(ctx, s, "-"); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want Canceled", err)
		}
	}
}

// Every duration can be given in days.
func TestPublishDays(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_DEAD_KEEP=10,2d", "BELLHOP_TOPIC_KEEP=1d12h")
	s.call("publish", "t", "--id", "1", "--delay", "1d12h", "--ttl", "2d", "--body", "x")
	if r := s.feed(`{"topic":"t","id":"2","delay":"1d12h","ttl":"2d","body":"x"}`, "publish", "--file", "-"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, id := range []string{"1", "2"} {
		var info api.Message
		s.json(&info, "inspect", "t", id, "--json")
		if info.Due.Sub(*info.Published).Round(time.Minute) != 36*time.Hour || info.Expires.Sub(*info.Due) != 48*time.Hour || info.TTL != api.Ms(48*time.Hour) {
			t.Errorf("got %+v", info)
		}
	}
	contains(t, s.fails(exitUsage, "publish", "t", "--delay", "9999999h", "--body", "x"), `invalid delay "9999999h": it is too long; the longest duration is 106751d`)
}

// A message may have an empty body, if that is given explicitly: it is a signal, also to a command.
func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--body", "")
	contains(t, s.call("inspect", "t", "1"), "0 bytes")
	contains(t, s.call("inspect", "t", "1", "--json"), `"body":""`)
	if out := s.call("work", "t", "--count", "1", "--", "wc", "-c"); strings.TrimSpace(out) != "0" {
		t.Errorf("the command reads %q bytes", out)
	}
	contains(t, s.feed(`{"topic":"t","id":"2","body":""}`+"\n"+`{"topic":"t"}`, "publish", "--file", "-").err, "line 2: invalid body: it is missing")
	contains(t, s.call("work", "t", "--count", "1", "--json"), `"body":""`)
	s.start("serve")
	s.call("broadcast", "t", "--body", "")
	contains(t, s.call("listen", "t", "--from", "beginning", "--count", "1", "--json"), `"body":""`)
}
