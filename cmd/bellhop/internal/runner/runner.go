// Package runner runs a command for each message or broadcast, with the body on its standard input, what
// describes it in its environment, and its output passed on line by line. The exit code decides about
// the message.
package runner

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
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/sd"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

// Exit codes of a command that refuses a message, those of sysexits.h.
const (
	ExitBury  = 65 // EX_DATAERR: the message is never to be done
	ExitLater = 75 // EX_TEMPFAIL: the message is to come again later
)

const killAfter = 5 * time.Second // between SIGTERM and SIGKILL

// A Command handles messages and broadcasts. It is safe for concurrent use.
type Command struct {
	path     string
	argv     []string
	env      []string
	out, err output
	running  *Groups
	starts   *starts
	left     *outage.Notice // of a child that a command left behind
}

// Options say what a Command runs, and where its output goes.
type Options struct {
	Argv     []string // the program and its arguments
	Env      []string // of this process, as os.Environ returns it
	Out, Err io.Writer
	Log      *slog.Logger
	Running  *Groups // the groups among which each command is while it runs
}

// New returns a command. Until ctx ends it waits for what commands leave behind, if this is the first process of a
// container. The error, of a program that is not there, is a notify.ErrInvalid.
func New(ctx context.Context, o Options) (*Command, error) {
	path, err := exec.LookPath(o.Argv[0])
	if err != nil {
		return nil, fault.New("command", "command: %w", err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else a write to a pipe that nobody reads any more ends this process
	c := &Command{
		path: path, argv: o.Argv, env: sd.ForChildren(o.Env), running: o.Running, starts: newStarts(o.Log),
		out: newOutput(o.Out, "standard output", o.Log), err: newOutput(o.Err, "standard error", o.Log),
		left: outage.New(o.Log, slog.LevelWarn, "the command left a child behind that holds its output open; each such message takes 5s longer: redirect the output of the child", ""),
	}
	go c.running.reapOrphans(ctx)
	return c, nil
}

// Troubles returns the notices of what may be wrong with the command, for the status of this process.
func (c *Command) Troubles() []*outage.Notice {
	return []*outage.Notice{c.starts.notice, c.out.notice, c.err.notice}
}

// Handle runs the command for one message. The error of a command that exited with ExitBury wraps
// subscribers.ErrBury; that of one that exited with ExitLater, or did not start, wraps ErrLater.
func (c *Command) Handle(ctx context.Context, d *subscribers.Delivery) error {
	return c.Produce(ctx, d, io.Discard)
}

// Produce is Handle that also writes the command's standard output to result.
func (c *Command) Produce(ctx context.Context, d *subscribers.Delivery, result io.Writer) error {
	env, err := environment(d.Topic, d.ID, d.Attempt, d.Due, d.Record, d.Fence)
	if err != nil {
		return err
	}
	env = append(env, "MESSAGE_LATE_MS="+strconv.FormatInt(api.Ms(d.Late()), 10))
	return refusal(c.run(ctx, d.Body, env, result))
}

// ReceiveNamed runs the command for one broadcast of a named listener. Its errors are those of Handle.
func (c *Command) ReceiveNamed(ctx context.Context, b *subscribers.Broadcast) error {
	return refusal(c.Receive(ctx, b))
}

// Receive runs the command for one broadcast of a listener without a name, to which none comes again: an exit
// code above 0 is an error like any other.
func (c *Command) Receive(ctx context.Context, b *subscribers.Broadcast) error {
	env, err := environment(b.Topic, b.ID, b.Attempt, b.Due, b.Record, 0)
	if err != nil {
		return err
	}
	return c.run(ctx, b.Body, append(env, "MESSAGE_POSITION="+b.Position.String(), "MESSAGE_BOOKMARK="+string(b.Bookmark())), io.Discard)
}

// refusal adds ErrBury to the error of a command that exited with ExitBury, and puts off
// the message of one that exited with ExitLater. The message of one that did not start is left
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
	case ExitBury:
		return fmt.Errorf("%w (%w)", err, subscribers.ErrBury)
	case ExitLater:
		return fmt.Errorf("%w (%w, %w)", err, ErrLater, subscribers.Snooze(subscribers.ByBackoff))
	}
	return err
}

// run runs the command with a body on its standard input, and env added to its
// environment. Its standard output also goes to result.
func (c *Command) run(ctx context.Context, body []byte, env []string, result io.Writer) error {
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
func (c *Command) start(ctx context.Context, body []byte, env []string) (_ *started, err error) {
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
func (c *Command) explain(err error) error {
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
