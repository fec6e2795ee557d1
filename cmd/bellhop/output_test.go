package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// full opens an output that has no space left.
func full(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	storetest.Must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

const (
	cannotPassOn = `level=ERROR msg="cannot pass on the standard output of the command" error="write /dev/full: no space left on device"`
	verbose      = `echo made; head -c 200000 /dev/zero; echo; echo said >&2; `
)

// An output that fails does not decide about messages: the exit code of their command does. It is reported once.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 4)
	var errOut printed
	script := verbose + `case $MESSAGE_ID in 2) exit 65 ;; 3) exit 75 ;; esac`
	if code := run([]string{"work", "t", "--count", "3", "--", "sh", "-c", script}, s.env, strings.NewReader(""), full(t), &errOut); code != exitDone {
		t.Errorf("exit %d", code)
	}
	said := errOut.String()
	contains(t, said, "said\n", `reason="exit status 65: said (buried by the handler)"`, "bellhop: handled 2, failed 1, put off 1\n")
	if strings.Count(said, cannotPassOn) != 1 || strings.Contains(said, "is passed on again") {
		t.Errorf("not one line for the output:\n%s", said)
	}
	if c := s.counts("t"); c.Acked != 2 || c.Dead != 1 || c.Scheduled != 1 {
		t.Errorf("got %+v, want 2 acknowledged, 1 dead and 1 scheduled", c)
	}
}

// What a command printed is kept, though it cannot be passed on, and an error of it is kept with its message.
func TestOutputFailsAndIsKept(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 2)
	script := `echo made; echo said >&2; test $MESSAGE_ID = 1 || exit 65`
	if code := run([]string{"work", "t", "--count", "2", "--keep", "1h", "--", "sh", "-c", script}, s.env, strings.NewReader(""), full(t), full(t)); code != exitDone {
		t.Errorf("exit %d", code)
	}
	var done, dead api.Message
	s.json(&done, "inspect", "t", "1", "--json")
	s.json(&dead, "inspect", "t", "2", "--json")
	if done.State != notify.Done || *done.Result.Result != "made\n" || dead.Reason != "exit status 65: said (buried by the handler)" {
		t.Errorf("got %+v and %+v", done, dead)
	}
}

// No broadcast is given up because what its command prints cannot be passed on.
func TestOutputFailsOfListeners(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.call("broadcast", "t", "--body", "x")
	s.call("broadcast", "t", "--body", "x")
	for _, flags := range []string{"--name shop --attempts 1", ""} {
		var errOut printed
		args := append(append([]string{"listen", "t", "--from", "beginning", "--count", "2"}, strings.Fields(flags)...), "--", "sh", "-c", verbose)
		if code := run(args, s.env, strings.NewReader(""), full(t), &errOut); code != exitDone {
			t.Errorf("exit %d", code)
		}
		contains(t, errOut.String(), cannotPassOn, "bellhop: handled 2, failed 0\n")
	}
}

// Without a command to print is to handle, so a message that cannot be printed fails.
func TestPrintFails(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "attempts=1")
	for _, flag := range []string{"--count=1", "--json"} {
		s.publish("t", 1)
		var errOut printed
		if code := run([]string{"work", "t", "--count", "1", flag}, s.env, strings.NewReader(""), full(t), &errOut); code != exitDone {
			t.Errorf("exit %d", code)
		}
		contains(t, errOut.String(), "write /dev/full: no space left on device", "bellhop: handled 0, failed 1\n")
		s.call("dead", "purge", "t", "1")
	}
}

// A worker goes on if nobody reads its output any more, and reports that in its status, too.
func TestReaderEnds(t *testing.T) {
	t.Parallel()
	m, variable := newManager(t)
	s := newShell(t, variable)
	cmd := s.command("work", "t", "--", "sh", "-c", verbose)
	reader, writer, err := os.Pipe()
	storetest.Must(t, err)
	p := newProcess(t)
	cmd.Stdout, cmd.Stderr = writer, &p.printed
	storetest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	reader.Close()
	writer.Close()
	s.publish("t", 2)
	m.await("STATUS=0 running, 2 handled, 0 failed; cannot pass on the standard output of the command: write /dev/stdout: broken pipe")
	storetest.Eventually(t, "both are acknowledged", func() bool { return s.counts("t").Acked == 2 })
	if n := strings.Count(p.said(), "broken pipe"); n != 1 {
		t.Errorf("%d lines for the output:\n%s", n, p.said())
	}
}

// A child that a command leaves behind with its output open does not hold up the message for ever, and is reported.
func TestChildHoldsOutput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	r := s.feed("", "work", "t", "--count", "1", "--", "sh", "-c", "sleep 30 & echo done")
	if r.code != exitDone || r.out != "done\n" {
		t.Errorf("got %+v", r)
	}
	contains(t, r.err, `level=WARN msg="the command left a child behind that holds its output open`, "bellhop: handled 1, failed 0\n")
}
