package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for range 2 {
		if out := s.call("pause", "a.b"); out != "a.b paused\n" {
			t.Errorf("got %q", out)
		}
	}
	contains(t, s.fails(exitUsage, "pause", "a.b", "--json"), "the command has no answer in JSON; its exit code says whether it was done")
	s.publish("a.b", 2)
	contains(t, s.call("topics"), "LATE ", " paused ")
	if c := s.counts("a.b"); !c.Paused || c.Ready != 2 {
		t.Errorf("got %+v", c)
	}
	p := s.start("work", "a.b", "--count", "2", "--", "cat")
	storetest.Eventually(t, "it waits", func() bool { return s.counts("a.b").Waiting == 1 })
	contains(t, s.call("resume", "a.b"), "a.b resumed\n")
	p.ends(exitDone)
	out := s.call("topics")
	if strings.Contains(out, "paused") {
		t.Errorf("it is paused still:\n%s", out)
	}
	contains(t, out, " ms ")
	contains(t, s.call("topics", "--json"), `"died":0,`, `"lateness_ms":`)
	contains(t, s.call("resume", "a.b"), "a.b resumed\n")
	for _, line := range strings.Split(s.call("topics"), "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// A pause that ends by itself, and what shows when.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("a.b", 1)
	const end = "2199-01-02T03:04:05Z"
	contains(t, s.call("pause", "a.b", "--until", "90m"), "a.b paused until 2", " (in 1h30m)\n")
	contains(t, s.call("topics"), " paused ", "a.b is paused until 2")
	contains(t, s.call("topics", "--json"), `"paused":true,"paused_until":"2`)
	contains(t, s.call("topics", "settings", "a.b"), "true until 2")
	contains(t, s.call("topics", "settings", "a.b", "--json"), `"paused":true,"paused_until":"2`)
	contains(t, s.call("pause", "a.b", "--until", "1d"), "a.b paused until 2", " (in 1d")
	s.call("pause", "a.b")
	if out := s.call("topics", "--json"); strings.Contains(out, "paused_until") {
		t.Errorf("the pause has an end still: %s", out)
	}
	for until, want := range map[string]string{
		"":                     "--until is empty; leave it out",
		"0s":                   "until 0s: use 1ms to 8784h, or a time to come",
		"-5m":                  "until -5m0s: use 1ms to 8784h, or a time to come",
		"367d":                 "use 1ms to 8784h, or a time to come",
		"soon":                 `until "soon": write how long from now on, such as 60s, 1h30m or 1d, or a time such as 2030-01-02T15:04:05Z`,
		"2020-01-02T03:04:05Z": "until: it is in the past, or more than 8784h ahead; use a time in between",
		end:                    "by Redis's clock it is 2",
	} {
		contains(t, s.fails(exitUsage, "pause", "a.b", "--until="+until), want)
	}
	s.call("pause", "a.b", "--until", "200ms")
	s.start("serve")
	s.start("work", "a.b", "--count", "1", "--", "cat").ends(exitDone)
}

func TestWrongPause(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, verb := range []string{"pause", "resume"} {
		contains(t, s.fails(exitUsage, verb), "bellhop: TOPIC is missing\n", "run 'bellhop "+verb+" --help'")
		contains(t, s.fails(exitUsage, verb, "a", "b"), `unexpected argument "b"`)
		contains(t, s.fails(exitUsage, verb, "a b"), `invalid topic "a b"`)
		contains(t, s.fails(exitUsage, verb, ""), "invalid topic")
	}
	contains(t, s.call("topics"), "no topic was published to yet")
}
