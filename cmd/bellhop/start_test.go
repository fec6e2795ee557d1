package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A script is an executable that a test replaces while a worker runs it.
type script struct {
	t    *testing.T
	path string
}

// newScript returns one that does nothing.
func newScript(t *testing.T) script {
	s := script{t, filepath.Join(t.TempDir(), "script")}
	s.becomes("#!/bin/sh\n")
	return s
}

// becomes puts a text in its place, at once.
func (s script) becomes(text string) {
	s.t.Helper()
	next := s.path + ".next"
	storetest.Must(s.t, os.WriteFile(next, []byte(text), 0o700))
	storetest.Must(s.t, os.Rename(next, s.path))
}

const (
	cannotStart = `level=ERROR msg="cannot start the command; retrying, without using up attempts"`
	startsAgain = `level=INFO msg="the command starts again"`
)

// A command that cannot be started uses up no attempt: other workers get the messages, and the worker goes on once it
// can be started. The log has a line for the beginning and one for the end.
func TestWorkWithoutCommand(t *testing.T) {
	t.Parallel()
	m, variable := newManager(t)
	s := newShell(t, variable)
	s.call("topics", "set", "*", "attempts=1")
	broken := newScript(t)
	p := s.start("work", "t", "--concurrency", "4", "--", broken.path)
	p.await(1, "waiting for messages")
	storetest.Must(t, os.Remove(broken.path))
	s.publish("t", 40)
	m.awaitMatch(`^STATUS=0 running, 0 handled, 0 failed, [0-9]+ put off; cannot start the command; .*: no such file or directory`)
	s.call("work", "t", "--count", "40", "--", "true")
	if c := s.counts("t"); c.Acked != 40 || c.Dead != 0 {
		t.Errorf("got %+v, want all 40 acknowledged", c)
	}
	s.publish("t", 1)
	broken.becomes("#!/bin/sh\necho handled by the new one\n")
	p.await(1, "handled by the new one")
	storetest.Eventually(t, "it is acknowledged", func() bool { return s.counts("t").Acked == 41 })
	p.stop()
	said := p.said()
	if strings.Count(said, cannotStart) != 1 || strings.Count(said, startsAgain) != 1 || strings.Contains(said, "message failed") {
		t.Errorf("the log has not one line for the beginning and one for the end:\n%s", said)
	}
	contains(t, said, "bellhop: handled 1, failed 0, put off ")
}

// isUntouched expects a message that is ready and used up no attempt.
func (s *shell) isUntouched(topic, id string) {
	s.t.Helper()
	var message api.Message
	s.json(&message, "inspect", topic, id, "--json")
	if message.State != notify.Ready || message.AttemptsUsed != 0 || message.Snoozed != 0 || len(message.History) != 0 {
		s.t.Errorf("got %+v, want a message that is ready and used up no attempt", message)
	}
}

// The error of a script that cannot be run names the cause. A message is not buried for it.
func TestUnrunnableCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "attempts=1")
	one := newScript(t)
	for text, want := range map[string]string{
		"echo x\n":                         "exec format error; begin the script with a line such as #!/bin/sh, or put the program that runs it in front",
		"#!/no/such/interpreter\necho x\n": "exists, but not the program that its line #! names",
	} {
		one.becomes(text)
		s.publish("t", 1)
		p := s.start("work", "t", "--", one.path)
		p.await(1, cannotStart)
		contains(t, p.said(), want)
		p.stop()
		s.isUntouched("t", "1")
		s.call("cancel", "t", "1")
	}
}

// No broadcast is given up, or left out, because a command cannot be started.
func TestListenWithoutCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	for _, flags := range [][]string{{"--name", "shop", "--attempts", "1"}, nil} {
		one := newScript(t)
		p := s.listen(append(append([]string{"t"}, flags...), "--", one.path)...)
		one.becomes("echo x\n") // without its first line
		s.broadcast("t 1", "t 2")
		p.await(1, cannotStart)
		one.becomes("#!/bin/sh\necho \"got $MESSAGE_ID on attempt $MESSAGE_ATTEMPT\"\n")
		p.await(1, "got 1 on attempt 1\n")
		p.await(1, "got 2 on attempt 1\n")
		p.stop()
		if said := p.said(); strings.Count(said, cannotStart) != 1 || strings.Count(said, startsAgain) != 1 {
			t.Errorf("the log has not one line for the beginning and one for the end:\n%s", said)
		}
	}
}

// A listener without a name stops while its command cannot be started, and its bookmark is before the broadcast.
func TestListenStopsWithoutCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_SHUTDOWN_TIMEOUT=1h")
	s.serve()
	one := newScript(t)
	p := s.listen("t", "--", one.path)
	storetest.Must(t, os.Remove(one.path))
	s.broadcast("t 1")
	p.await(1, cannotStart)
	p.stop()
	_, bookmark, _ := strings.Cut(p.said(), " bookmark=")
	bookmark, _, _ = strings.Cut(bookmark, "\n")
	if got := s.received(1, "t", "--from", bookmark); len(got) != 1 || got[0].ID != "1" {
		t.Errorf("behind the bookmark %q is %+v", bookmark, got)
	}
}
