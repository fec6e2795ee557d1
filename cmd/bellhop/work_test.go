package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// counts returns the counts of one topic, as topics --json prints them.
func (s *shell) counts(topic string) calls.Topic {
	s.t.Helper()
	var all calls.Topics
	s.json(&all, "topics", topic, "--json")
	for _, c := range all.Topics {
		if c.Topic == topic {
			return c
		}
	}
	return calls.Topic{}
}

// publish publishes messages that are due at once, with ids and bodies from 1.
func (s *shell) publish(topic string, n int) {
	s.t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"topic":%q,"id":"%d","body":"body %d"}`+"\n", topic, i+1, i+1)
	}
	if r := s.feed(lines.String(), "publish", "--file", "-"); r.code != 0 {
		s.t.Fatalf("%+v", r)
	}
}

func TestWorkPrints(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 2)
	if out := s.call("work", "t", "--count", "2"); !strings.HasPrefix(out, "1  attempt 1  ") || !strings.Contains(out, " ms late  body 2\n") {
		t.Errorf("got %q", out)
	}
	s.call("publish", "t", "--id", "j", "--body", "x", "--header", "A=b", "--content-type", "text/plain")
	var m struct {
		Topic, ID, Body string
		ContentType     string `json:"content_type"`
		Attempt         int
		Headers         map[string]string
	}
	s.json(&m, "work", "t", "--count", "1", "--json")
	if m.Topic != "t" || m.ID != "j" || m.Body != "x" || m.Attempt != 1 || m.ContentType != "text/plain" || m.Headers["A"] != "b" {
		t.Errorf("got %+v", m)
	}
	if c := s.counts("t"); c.Acked != 3 || c.Ready+c.Leased+c.Scheduled+c.Dead != 0 {
		t.Errorf("got %+v, want 3 acknowledged and nothing else", c)
	}
}

// With --min-age a worker leaves young messages to others.
func TestWorkOfAnAge(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.start("work", "t", "--min-age", "1h")
	p.await(1, "waiting for messages")
	s.publish("t", 2)
	if out := s.call("work", "t", "--count", "2"); strings.Count(out, "attempt 1") != 2 {
		t.Errorf("another worker got %q", out)
	}
	p.stop()
	began := time.Now()
	s.publish("t", 1)
	if out := s.call("work", "t", "--min-age", "300ms", "--count", "1"); !strings.HasPrefix(out, "1  attempt 1  ") || time.Since(began) < 300*time.Millisecond {
		t.Errorf("it got %q after %v", out, time.Since(began))
	}
	if c := s.counts("t"); c.Acked != 3 || c.Ready+c.Leased != 0 {
		t.Errorf("got %+v, want all acknowledged", c)
	}
}

func TestWorkCountsExactly(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 20)
	for _, concurrency := range []string{"1", "8"} {
		out := s.call("work", "t", "--count", "3", "--concurrency", concurrency)
		if n := strings.Count(out, "\n"); n != 3 {
			t.Errorf("%d messages are printed, want 3:\n%s", n, out)
		}
	}
	if c := s.counts("t"); c.Acked != 6 || c.Ready != 14 || c.Leased != 0 {
		t.Errorf("got %+v, want 6 acknowledged and 14 ready", c)
	}
	var page api.Page
	s.json(&page, "inspect", "t", "--state", "ready", "--json")
	for _, m := range page.Messages {
		if m.AttemptsUsed != 0 {
			t.Errorf("message %s used up an attempt", m.ID)
		}
	}
}

func TestWorkRunsCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "backoff_min=1ms", "backoff_max=1ms")
	s.start("serve")
	s.publish("t", 3)
	s.call("publish", "t", "--id", "e", "--body", "the body", "--header", "X-Shop=main", "--content-type", "text/plain")
	script := `
case $MESSAGE_ID in
1) echo done ;;
2) echo broken input >&2; exit 65 ;;
3) echo try $MESSAGE_ATTEMPT; echo not now >&2; test $MESSAGE_ATTEMPT = 3 ;;
e) echo "$MESSAGE_TOPIC $MESSAGE_ID $MESSAGE_ATTEMPT $MESSAGE_CONTENT_TYPE $MESSAGE_HEADER_X_SHOP $(cat)"; date -d "$MESSAGE_DUE" +%Y ;;
esac`
	r := s.feed("", "work", "t", "--count", "4", "--concurrency", "2", "--", "sh", "-c", script)
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	contains(t, r.out, "done\n", "try 1\n", "try 2\n", "try 3\n", "t e 1 text/plain main the body\n", "\n20")
	contains(t, r.err, "broken input\n", "not now\n", "message died")
	if c := s.counts("t"); c.Acked != 3 || c.Dead != 1 {
		t.Errorf("got %+v, want 3 acknowledged and 1 dead", c)
	}
	var dead api.Message
	s.json(&dead, "inspect", "t", "2", "--json")
	if dead.State != notify.Dead || dead.Reason != "exit status 65: broken input (buried by the handler)" || dead.AttemptsUsed != 1 {
		t.Errorf("got %+v", dead)
	}
}

// A message with two headers of one variable is not handed to a command, which would read either of them.
func TestWorkBuriesHeadersOfOneName(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("publish", "t", "--id", "1", "--body", "x", "--header", "a-b=1", "--header", "a_b=2", "--header", "a.c=3")
	s.call("work", "t", "--count", "1", "--", "true")
	var dead api.Message
	s.json(&dead, "inspect", "t", "1", "--json")
	if want := "the headers a-b and a_b have the same variable MESSAGE_HEADER_A_B (buried by the handler)"; dead.State != notify.Dead || dead.Reason != want {
		t.Errorf("got %+v", dead)
	}
	contains(t, s.fails(exitUsage, "publish", "t", "--body", "x", "--header", "To=1", "--header", "TO=2"), "invalid headers TO and To")
}

func TestWorkGivesUp(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "backoff_min=1ms", "backoff_max=1ms", "attempts=2")
	s.start("serve")
	s.publish("t", 1)
	p := s.start("work", "t", "--", "sh", "-c", "echo no >&2; kill -9 $$")
	p.await(1, "message died")
	p.stop()
	var page api.Page
	s.json(&page, "dead", "list", "t", "--json")
	if len(page.Messages) != 1 || page.Messages[0].Reason != "signal: killed: no" || page.Messages[0].AttemptsUsed != 2 {
		t.Errorf("got %+v", page)
	}
}

func TestWorkDrains(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 2)
	gate := filepath.Join(t.TempDir(), "gate")
	p := s.start("work", "t", "--", "sh", "-c", `echo began; while ! test -e "$0"; do sleep 0.01; done; echo ended`, gate)
	p.await(1, "began")
	p.signal(os.Interrupt) // as Ctrl-C
	storetest.Eventually(t, "the other message is released", func() bool { c := s.counts("t"); return c.Leased == 1 && c.Ready == 1 })
	storetest.Must(t, os.WriteFile(gate, nil, 0o600))
	p.ends(exitDone)
	contains(t, p.said(), "ended")
	if c := s.counts("t"); c.Acked != 1 || c.Ready != 1 {
		t.Errorf("got %+v, want 1 acknowledged and 1 ready", c)
	}
}

// If a command ends on SIGTERM after the grace, its message is released.
func TestWorkAsksCommandToEnd(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_SHUTDOWN_TIMEOUT=50ms")
	s.publish("t", 1)
	p := s.start("work", "t", "--", "sh", "-c", `trap 'echo asked; exit 1' TERM; echo began; while :; do sleep 0.01; done`)
	p.await(1, "began")
	p.stop()
	contains(t, p.said(), "asked")
	var info api.Message
	s.json(&info, "inspect", "t", "1", "--json")
	if info.State != notify.Ready || info.AttemptsUsed != 0 {
		t.Errorf("got %+v, want a message that is ready and used up no attempt", info)
	}
}

// A command that ignores SIGTERM is killed with its children.
func TestWorkKillsCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_SHUTDOWN_TIMEOUT=50ms")
	s.publish("t", 1)
	p := s.start("work", "t", "--", "sh", "-c", `trap 'echo asked' TERM; echo began $$; while :; do sleep 0.01; done`)
	p.await(1, "began")
	p.signal(syscall.SIGTERM)
	p.await(1, "asked")
	p.ends(exitDone)
	var pid int
	storetest.Must(t, storetest.ErrOf(fmt.Sscanf(p.said()[strings.Index(p.said(), "began"):], "began %d", &pid)))
	storetest.Eventually(t, "the command's group is gone", func() bool { return syscall.Kill(-pid, 0) != nil })
	var info api.Message
	s.json(&info, "inspect", "t", "1", "--json")
	if info.State != notify.Ready || info.AttemptsUsed != 0 {
		t.Errorf("got %+v, want a message that is ready and used up no attempt", info)
	}
}

// A command whose message is cancelled with a stop gets SIGTERM, and whatever it exits with, the message is gone.
func TestWorkStopsWhatIsCancelled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"plain": nil, "kept": {"--keep", "1h"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.publish("t", 1)
			args := append(append([]string{"work", "t"}, args...), "--", "sh", "-c", `trap 'echo asked; exit 0' TERM; echo began; while :; do sleep 0.01; done`)
			p := s.start(args...)
			p.await(1, "began")
			contains(t, s.fails(exitFailed, "cancel", "t", "1"), "message is leased")
			contains(t, s.fails(exitUsage, "cancel", "t", "1", "--stop", "--next"), "next", "stop")
			contains(t, s.call("cancel", "t", "1", "--stop"), "t 1 is being stopped, a worker has it; it is cancelled, with what follows it, when its lease ends\n")
			p.await(1, "asked")
			storetest.Eventually(t, "the message is gone", func() bool { return s.feed("", "inspect", "t", "1").code == exitFailed })
			p.stop()
			if c := s.counts("t"); c.Acked+c.Died != 0 || c.Leased+c.Ready+c.Scheduled+c.Dead != 0 {
				t.Errorf("got %+v, want nothing", c)
			}
		})
	}
}

// What a worker had that was killed is gone once the lease has ended.
func TestCancelledWorkOfTheDead(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.call("topics", "set", "t", "lease=5s")
	s.publish("t", 1)
	p := s.launch(s.command("work", "t", "--", "sh", "-c", "echo began; exec sleep 60"))
	p.await(1, "began")
	p.signal(syscall.SIGKILL)
	s.call("cancel", "t", "1", "--stop")
	storetest.Eventually(t, "the message is gone", func() bool { return s.feed("", "inspect", "t", "1").code == exitFailed })
	if c := s.counts("t"); c.Acked+c.Died != 0 || c.Leased+c.Ready+c.Scheduled+c.Dead != 0 {
		t.Errorf("got %+v, want nothing", c)
	}
}

func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	p := s.launch(s.command("work", "t", "--", "sh", "-c", "echo began $$; sleep 60; echo ended"))
	p.await(1, "began")
	p.signal(syscall.SIGTERM)
	p.await(1, "a second signal kills them")
	p.signal(syscall.SIGTERM)
	p.ends(exitInterrupted)
	var pid int
	storetest.Must(t, storetest.ErrOf(fmt.Sscanf(p.said()[strings.Index(p.said(), "began"):], "began %d", &pid)))
	storetest.Eventually(t, "the command's group is gone", func() bool { return syscall.Kill(-pid, 0) != nil })
}

// A message that is out of attempts counts like one that is acknowledged or buried.
func TestWorkCountsDeaths(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "t", "attempts=1")
	s.publish("t", 4)
	r := s.feed("", "work", "t", "--count", "3", "--", "sh", "-c",
		`case $MESSAGE_ID in 1) exit 0;; 2) exit 65;; *) exit 1;; esac`)
	if r.code != exitDone {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if c := s.counts("t"); c.Acked != 1 || c.Dead != 2 || c.Ready != 1 {
		t.Errorf("got %+v, want 1 acknowledged, 2 dead and 1 ready", c)
	}
}

func TestWorkDoesNotMixLines(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 40)
	// printf in parts, so that a line is many writes
	out := s.call("work", "t", "--count", "40", "--concurrency", "8", "--", "sh", "-c",
		`for i in 1 2 3 4 5; do printf %s "$MESSAGE_ID "; sleep 0.002; done; printf end`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if len(slices.Compact(lines)) != 40 {
		t.Errorf("%d lines, want 40", len(lines))
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) != 6 || len(slices.Compact(words[:5])) != 1 || words[5] != "end" {
			t.Errorf("mixed line %q", line)
		}
	}
}

func TestWorkWithoutCarrier(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.start("work", "t")
	p.await(1, "no carrier is heard")
	p.stop()
}

func TestWorkRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, test := range []struct {
		args string
		want string
	}{
		{"work", "TOPIC is missing"},
		{"work -- true", "TOPIC is missing"},
		{"work t true", `unexpected argument "true"; write -- in front of the command`},
		{"work t --", "CMD is missing after --"},
		{"work t -- --concurrency=8 true", "flag --concurrency=8 is after --, where CMD begins; write bellhop work t --concurrency=8 -- CMD"},
		{"listen t -- --json", "flag --json is after --, where CMD begins; write bellhop listen t --json -- CMD"},
		{"work t -- --help", "flag --help is after --"},
		{"work t -- no-such-command-here", "executable file not found"},
		{"work a/b", `invalid topic "a/b"`},
		{"work t --concurrency 0", "invalid concurrency 0"},
		{"work t --concurrency 10001", "invalid concurrency 10001"},
		{"work t --count -1", "invalid count -1"},
		{"work t --min-age soon", `invalid min_age "soon": write a duration`},
		{"work t --min-age -1s", "invalid min age -1s: it is negative"},
		{"work t --count 0 --min-age x", "invalid count 0"},
		{"work t --attempts 2", "unknown flag: --attempts"},
		{"work t --lease 1s", "unknown flag: --lease"},
	} {
		contains(t, s.fails(exitUsage, strings.Fields(test.args)...), test.want)
	}
}

func TestBodiesInJSON(t *testing.T) {
	for _, body := range []string{"text", "\xff\x00", ""} {
		raw, err := json.Marshal(struct{ api.Text }{api.TextOf([]byte(body))})
		storetest.Must(t, err)
		var text api.Text
		if err := json.Unmarshal(raw, &text); err != nil || string(text.Bytes()) != body || text.Bytes() == nil {
			t.Errorf("%q becomes %s", body, raw)
		}
	}
}
