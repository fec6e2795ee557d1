package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	exitBury  = 65              // EX_DATAERR of sysexits.h: the input was incorrect
	killAfter = 5 * time.Second // between SIGTERM and SIGKILL
	tailBytes = 400             // of what a command wrote to stderr, kept as the reason
)

// command is the command that handles messages and broadcasts.
type command struct {
	path     string
	argv     []string
	out, err io.Writer
	running  *groups
}

// newCommand returns the command that argv names. The error is a notify.ErrInvalid.
func (a *app) newCommand(argv []string) (*command, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, store.Faultf("command", "command: %w", err)
	}
	return &command{path: path, argv: argv, out: a.out, err: a.err, running: &a.running}, nil
}

// groups are the process groups of commands that run.
type groups struct {
	mu  sync.Mutex
	all map[int]bool
}

// run runs a command whose group is among them meanwhile.
func (g *groups) run(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.all == nil {
		g.all = make(map[int]bool)
	}
	g.all[cmd.Process.Pid] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.all, cmd.Process.Pid)
	}()
	return cmd.Wait()
}

// kill kills them all.
func (g *groups) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for pid := range g.all {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended just now
	}
}

// handle runs the command for one message.
func (c *command) handle(ctx context.Context, d *subscribers.Delivery) error {
	env, err := environment(d.Topic, d.ID, d.Attempt, d.Due, d.Record)
	if err != nil {
		return err
	}
	return refusal(c.run(ctx, d.Body, env))
}

// hear runs the command for one broadcast.
func (c *command) hear(ctx context.Context, b *subscribers.Broadcast) error {
	env, err := environment(b.Topic, b.ID, b.Attempt, b.Due, b.Record)
	if err != nil {
		return err
	}
	return c.run(ctx, b.Body, append(env, "MESSAGE_POSITION="+b.Position.String()))
}

// refusal makes an ErrBury of the error of a command that exited with exitBury.
func refusal(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitBury {
		return fmt.Errorf("%w (%w)", err, subscribers.ErrBury)
	}
	return err
}

// run runs the command with a body on its standard input, and more in its environment.
func (c *command) run(ctx context.Context, body []byte, env []string) error {
	out, errOut := &lineWriter{to: c.out}, &lineWriter{to: c.err}
	var last tail
	cmd := exec.CommandContext(ctx, c.path)
	cmd.Args = c.argv
	cmd.Stdin = bytes.NewReader(body)
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(errOut, &last)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	err := c.running.run(cmd)
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind, most often nothing
	}
	if bad := errors.Join(out.flush(), errOut.flush()); bad != nil {
		return fmt.Errorf("pass on what %s wrote: %w", c.argv[0], bad)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.argv[0], context.Cause(ctx))
	case errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil // it is done, and left something behind that holds its output
	}
	return last.reason(c.explain(err))
}

// explain says what a start that failed does not: the kernel has no word about
// the first line of a script.
func (c *command) explain(err error) error {
	var start *fs.PathError
	if !errors.As(err, &start) {
		return err
	}
	switch _, bad := os.Stat(c.path); {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w; begin the script with a line such as #!/bin/sh, or write the program that runs it in front", err)
	case errors.Is(err, fs.ErrNotExist) && bad == nil:
		return fmt.Errorf("%w; %s is there, but not the program that its line #! names", err, c.path)
	}
	return err
}

// environment describes a message, or a broadcast, to the command. The names do
// not begin with BELLHOP_: there an unknown one is an error, and the command may
// call bellhop. The error is a subscribers.ErrBury: the command would read one of two headers.
func environment(topic, id string, attempt int, due time.Time, r notify.Record) ([]string, error) {
	env := []string{
		"MESSAGE_TOPIC=" + topic,
		"MESSAGE_ID=" + id,
		"MESSAGE_ATTEMPT=" + strconv.Itoa(attempt),
		"MESSAGE_DUE=" + due.UTC().Format(stampLayout),
		"MESSAGE_CONTENT_TYPE=" + r.ContentType,
	}
	if !r.FirstDue.IsZero() { // a broadcast has none
		env = append(env, "MESSAGE_FIRST_DUE="+r.FirstDue.UTC().Format(stampLayout))
	}
	names := make(map[string]string, len(r.Headers)) // by their variables
	for name, value := range r.Headers {
		key := "MESSAGE_HEADER_" + variable(name)
		if other, twice := names[key]; twice {
			return nil, fmt.Errorf("the headers %.100s and %.100s are both %.100s to a command (%w)", min(name, other), max(name, other), key, subscribers.ErrBury)
		}
		names[key] = name
		env = append(env, key+"="+value)
	}
	return env, nil
}

// variable returns a header's name as a shell can read it: upper case, and _ for all but letters and digits.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// lineWriter passes on whole lines, so that those of commands that run at the
// same time do not mix. A line that is too long is passed on in parts.
type lineWriter struct {
	to      io.Writer
	pending []byte
}

const maxLine = 64 << 10

// Write passes on the lines that are complete.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	end := bytes.LastIndexByte(l.pending, '\n') + 1
	if end == 0 && len(l.pending) >= maxLine {
		end = len(l.pending)
	}
	if end == 0 {
		return len(p), nil
	}
	_, err := l.to.Write(l.pending[:end])
	l.pending = append(l.pending[:0], l.pending[end:]...)
	return len(p), err
}

// flush passes on a last line that has no end, and gives it one.
func (l *lineWriter) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	_, err := l.to.Write(append(l.pending, '\n'))
	l.pending = nil
	return err
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// reason says why the command failed, with the end of what it wrote to stderr.
func (t *tail) reason(err error) error {
	said := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), ""))
	if said == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, said)
}
