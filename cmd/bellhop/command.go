package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	exitBury  = 65              // EX_DATAERR of sysexits.h: the input was incorrect
	exitLater = 75              // EX_TEMPFAIL: try again later
	killAfter = 5 * time.Second // between SIGTERM and SIGKILL
	tailBytes = 400             // of a command's stderr, kept as the reason
)

// command is the command that handles messages and broadcasts.
type command struct {
	path     string
	argv     []string
	env      []string
	out, err output
	running  *groups
	starts   *starts
	left     *outage.Notice // of a child that a command left behind
}

// newCommand returns the command that argv names, whose troubles are in the status of the
// session. Until ctx ends it waits for what commands leave behind. The error is a notify.ErrInvalid.
func (a *app) newCommand(ctx context.Context, s *session, argv []string) (*command, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fault.New("command", "command: %w", err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else a write to a pipe that nobody reads any more ends this process
	c := &command{
		path: path, argv: argv, env: sd.ForChildren(a.env), running: &a.running, starts: newStarts(s.log),
		out: newOutput(a.out, "standard output", s.log), err: newOutput(a.err, "standard error", s.log),
		left: outage.New(s.log, slog.LevelWarn, "the command left a child behind that holds its output open; each such message takes 5s longer: redirect the output of the child", ""),
	}
	go c.running.reapOrphans(ctx)
	s.troubles = append(s.troubles, c.starts.notice, c.out.notice, c.err.notice)
	return c, nil
}

// groups are the process groups of running commands.
type groups struct {
	starting sync.RWMutex // read-locked from the start of a command until its group is among all
	mu       sync.Mutex
	all      map[int]bool
}

// start starts a command. Its group is among them until wait, which waits for its end.
func (g *groups) start(cmd *exec.Cmd) (wait func() error, err error) {
	g.starting.RLock()
	defer g.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[int]bool)
	}
	g.all[cmd.Process.Pid] = true
	return func() error {
		defer g.remove(cmd.Process.Pid)
		return cmd.Wait()
	}, nil
}

func (g *groups) has(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[pid]
}

func (g *groups) remove(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, pid)
}

// kill kills all groups.
func (g *groups) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for pid := range g.all {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // which may have ended just now
	}
}

// handle runs the command for one message.
func (c *command) handle(ctx context.Context, d *subscribers.Delivery) error {
	return c.produce(ctx, d, io.Discard)
}

// produce is handle that also writes the command's standard output to result.
func (c *command) produce(ctx context.Context, d *subscribers.Delivery, result io.Writer) error {
	env, err := environment(d.Topic, d.ID, d.Attempt, d.Due, d.Record, d.Fence)
	if err != nil {
		return err
	}
	env = append(env, "MESSAGE_LATE_MS="+strconv.FormatInt(api.Ms(d.Late()), 10))
	if d.IsLate {
		env = append(env, "MESSAGE_LATE=true")
	}
	return refusal(c.run(ctx, d.Body, env, result))
}

// receive runs the command for one broadcast.
func (c *command) receive(ctx context.Context, b *subscribers.Broadcast) error {
	env, err := environment(b.Topic, b.ID, b.Attempt, b.Due, b.Record, 0)
	if err != nil {
		return err
	}
	return c.run(ctx, b.Body, append(env, "MESSAGE_POSITION="+b.Position.String(), "MESSAGE_BOOKMARK="+string(b.Bookmark())), io.Discard)
}

// refusal adds ErrBury to the error of a command that exited with exitBury, and puts off
// the message of one that exited with exitLater. The message of one that did not start is left
// to others.
func refusal(err error) error {
	var un *unstarted
	if errors.As(err, &un) {
		return un.notNow()
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	switch exit.ExitCode() {
	case exitBury:
		return fmt.Errorf("%w (%w)", err, subscribers.ErrBury)
	case exitLater:
		return fmt.Errorf("%w (%w, %w)", err, errLater, subscribers.Snooze(subscribers.ByBackoff))
	}
	return err
}

// run runs the command with a body on its standard input, and env added to its
// environment. Its standard output also goes to result.
func (c *command) run(ctx context.Context, body []byte, env []string, result io.Writer) error {
	one, err := c.start(ctx, body, env)
	if err != nil {
		return c.starts.failed(c.explain(err))
	}
	c.starts.succeeded()
	passing, exited := context.WithCancel(ctx)
	defer exited()
	out, errOut := &lineWriter{pass: c.out.passUntil(passing)}, &lineWriter{pass: c.err.passUntil(passing)}
	var last tail
	one.out.copyTo(io.MultiWriter(result, out))
	one.err.copyTo(io.MultiWriter(&last, errOut))
	err = one.wait()
	exited()
	if one.asked {
		_ = syscall.Kill(-one.cmd.Process.Pid, syscall.SIGKILL) // its children, if it left any
	}
	until := time.Now().Add(killAfter)
	if held := one.out.finish(until); one.err.finish(until) || held {
		c.left.Begin("command", c.argv[0])
	}
	out.flush()
	errOut.flush()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && one.cmd.ProcessState.Success():
		return nil
	case one.asked:
		return fmt.Errorf("%s: %w", c.argv[0], context.Cause(ctx))
	}
	return last.reason(err)
}

// A started is a command that runs for one message.
type started struct {
	cmd      *exec.Cmd
	out, err *pipe
	wait     func() error // waits for its end
	asked    bool         // to end, since its context has ended; known once it is waited for
}

// start starts the command.
func (c *command) start(ctx context.Context, body []byte, env []string) (_ *started, err error) {
	one := &started{cmd: exec.CommandContext(ctx, c.path)}
	if one.out, err = newPipe(); err != nil {
		return nil, err
	}
	if one.err, err = newPipe(); err != nil {
		one.out.close()
		return nil, err
	}
	cmd := one.cmd
	cmd.Args = c.argv
	cmd.Stdin = bytes.NewReader(body)
	cmd.Stdout, cmd.Stderr = one.out.end, one.err.end
	cmd.Env = append(slices.Clip(c.env), env...)
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		one.asked = true
		return err
	}
	cmd.WaitDelay = killAfter
	if one.wait, err = c.running.start(cmd); err != nil {
		one.out.close()
		one.err.close()
		return nil, err
	}
	return one, nil
}

// explain adds to the error of a failed start what the kernel's error leaves out:
// a missing or wrong first line of a script.
func (c *command) explain(err error) error {
	var start *fs.PathError
	if !errors.As(err, &start) {
		return err
	}
	switch _, bad := os.Stat(c.path); {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w; begin the script with a line such as #!/bin/sh, or put the program that runs it in front", err)
	case errors.Is(err, fs.ErrNotExist) && bad == nil:
		return fmt.Errorf("%w; %s exists, but not the program that its line #! names", err, c.path)
	}
	return err
}

// environment returns the variables that describe a message or a broadcast. Their
// names do not begin with BELLHOP_: the command may call bellhop, which rejects
// unknown settings. The error, of two headers with one variable, is a subscribers.ErrBury.
func environment(topic, id string, attempt int, due time.Time, r notify.Record, fence int64) ([]string, error) {
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
	for _, one := range asked.Attributes(&r, fence) {
		env = append(env, "MESSAGE_"+strings.ToUpper(one.Name)+"="+one.Text)
	}
	names := make(map[string]string, len(r.Headers)) // by their variables
	for name, value := range r.Headers {
		key := "MESSAGE_HEADER_" + variable(name)
		if other, twice := names[key]; twice {
			return nil, fmt.Errorf("the headers %.100s and %.100s have the same variable %.100s (%w)", min(name, other), max(name, other), key, subscribers.ErrBury)
		}
		names[key] = name
		env = append(env, key+"="+value)
	}
	return env, nil
}

// variable returns a header's name in upper case, with _ for all but letters and digits, so that a shell can read it.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// lineWriter passes on whole lines, so that the lines of concurrent commands do
// not mix. A line longer than maxLine is passed on in parts.
type lineWriter struct {
	pass    func([]byte)
	pending []byte
}

const maxLine = 64 << 10

// Write passes on the complete lines.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.pending = append(l.pending, p...)
	end := bytes.LastIndexByte(l.pending, '\n') + 1
	if end == 0 && len(l.pending) >= maxLine {
		end = len(l.pending)
	}
	if end > 0 {
		l.pass(l.pending[:end])
		l.pending = append(l.pending[:0], l.pending[end:]...)
	}
	return len(p), nil
}

// flush passes on an unfinished last line, and ends it.
func (l *lineWriter) flush() {
	if len(l.pending) > 0 {
		l.pass(append(l.pending, '\n'))
		l.pending = nil
	}
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

// reason adds the end of stderr to the error of a failed command.
func (t *tail) reason(err error) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), ""))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}
