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
	if out := s.call("pause", "a.b", "--json"); out != `{"topic":"a.b","paused":true}`+"\n" {
		t.Errorf("got %q", out)
	}
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
	if out := s.call("resume", "a.b", "--json"); out != `{"topic":"a.b","paused":false}`+"\n" {
		t.Errorf("got %q", out)
	}
	for _, line := range strings.Split(s.call("topics"), "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
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
