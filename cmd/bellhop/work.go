package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/outlet"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/runner"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// workFlags are the flags of work; listen has them, too.
type workFlags struct{ concurrency, count int }

// workHelp is the help of bellhop work.
const workHelp = `Handle the messages of a topic until SIGTERM or Ctrl-C.

Without CMD each message is printed on a line and acknowledged; a body that is not
printable there is quoted, and --json prints it unchanged. With CMD the command is
run for each message, with the body on its standard input, and MESSAGE_TOPIC,
MESSAGE_ID, MESSAGE_ATTEMPT, MESSAGE_DUE, MESSAGE_FIRST_DUE, MESSAGE_LATE_MS,
MESSAGE_CONTENT_TYPE, MESSAGE_KEY and MESSAGE_FENCE if it has a key and, for each
header, MESSAGE_HEADER_NAME in its environment; a message with two headers of one
variable is buried: a dead letter at once. The exit code of CMD decides:

  0   done: the message is acknowledged
  65  never to be done: the message is buried at once
  75  not yet: again after a backoff, which uses up no attempt; up to the end of
      the time to live, or up to 1,000 times
  any other code, or a signal: again after a backoff, until out of attempts

If CMD cannot be started (it was removed or replaced, memory or descriptors are
short), the message is released at once, without using up an attempt, and other
workers may get it. This one tries again after a pause of 1s, growing to 30s; the
log reports once that it cannot, and once that it can again.

What CMD prints is passed on, line by line; while nobody reads it, CMD waits. If that
fails (the disk is full, the reader has ended), or CMD has ended or has to, it is
thrown away. The log reports either once: the exit code decides. Without CMD a
message that cannot be printed has failed.

A child that CMD leaves behind with its output open delays the end of CMD by 5s, for
each message: redirect the output of the child. As the first process of a container
bellhop also waits for such children (on Linux), so it needs no init.

The lease, the backoff and the limit of attempts are settings of the topic: see
bellhop topics set. With --min-age only messages are handled that no other worker
claimed for so long, exactly then. The lease is extended while CMD runs. If it is
lost, the message is cancelled with --stop, its try_timeout is over, or a stop takes
longer than BELLHOP_SHUTDOWN_TIMEOUT, CMD gets SIGTERM, and SIGKILL 5 s later. A second
SIGTERM or Ctrl-C kills CMD and ends at once: its message is
delivered again later. At the end, standard error reports how many messages were
handled, how many attempts failed, and how often one was put off.

With --keep a message that succeeded is kept for so long, its id taken, and bellhop
inspect shows it. The standard output of CMD, which is printed all the same, is the
result, up to 64 KiB: a longer one is left out, with a warning.`

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	var o workOptions
	c := a.jsonFlag(&cobra.Command{
		Use:   "work TOPIC [flags] [-- CMD ARGS...]",
		Short: "Handle the messages of a topic: run a command for each, or print",
		Long:  workHelp,
		Example: `  bellhop work greetings
  bellhop work order.timeout --concurrency 8 -- ./cancel-unpaid.sh
  bellhop work order.timeout --min-age 5m -- ./page-somebody.sh
  bellhop work report --keep 24h -- ./make-report.sh
  bellhop work mail -- sh -c 'sendmail "$MESSAGE_HEADER_TO"'`,
		Args: handlerArgs("TOPIC"),
	})
	flags := c.Flags()
	flags.IntVar(&f.concurrency, "concurrency", 1, "messages handled at the same time")
	flags.IntVar(&f.count, "count", 0, "end when this many were acknowledged, died or were dropped (default: never)")
	flags.StringVar(&o.minAge, "min-age", "", "handle only messages that have been due for this long: those that no other worker claimed (default: all)")
	flags.StringVar(&o.keep, "keep", "", "keep what succeeded for so long, with its result, such as 24h (default: not at all)")
	flags.StringVar(&o.name, "name", "", "name of this worker, as bellhop workers and inspect show it (default: HOST-PID)")
	return a.withOutlets(c, func(ctx context.Context, s *session, args []string) error {
		if err := errors.Join(f.check(c), o.check(c), checkOneTopic(args[0])); err != nil {
			return err
		}
		handler := a.show
		if len(args) > 1 {
			cmd, err := a.newCommand(ctx, s, args[1:])
			if err != nil {
				return err
			}
			handler = cmd.Handle
			if o.keepFor > 0 {
				handler = keeping(o.keepFor, s.log, cmd.Produce)
			}
		} else if o.keepFor > 0 {
			handler = keeping(o.keepFor, s.log, func(ctx context.Context, d *subscribers.Delivery, _ io.Writer) error { return a.show(ctx, d) })
		}
		var t tally
		defer a.sum(&t)
		defer s.reportStatus(ctx, &t)()
		return work(ctx, s, args[0], counting(&t, handler), f, o)
	})
}

// checkOneTopic refuses a pattern where a topic is to be, and says what takes one.
func checkOneTopic(text string) error {
	if _, err := notify.ParsePattern(text); err != nil || !strings.ContainsAny(text, "*>") {
		return nil
	}
	return wrong(misused("topic", "topic %q: it is a pattern, and a worker handles one topic; start one for each that bellhop topics '%[1]s' lists, or have all sent to a URL: bellhop push put", text))
}

// workOptions are further flags of work.
type workOptions struct {
	minAge, keep, name string

	age, keepFor time.Duration // as check reads them
}

// check reads the flags, and reports those that are wrong.
func (o *workOptions) check(c *cobra.Command) (err error) {
	var faults []error
	if o.age, err = fields.ParseDuration("min_age", o.minAge); err != nil {
		faults = append(faults, err)
	}
	if c.Flags().Changed("name") && o.name == "" {
		faults = append(faults, wrong(misused("name", "--name is empty; leave it out")))
	}
	o.keepFor, err = fields.ParseDuration("keep", o.keep)
	if err == nil && c.Flags().Changed("keep") {
		err = fault.Within("keep", "keep", o.keepFor, time.Millisecond, store.MaxKeep)
	}
	return errors.Join(append(faults, err)...)
}

// newCommand returns the command that argv names, whose troubles are in the status of the session.
func (a *app) newCommand(ctx context.Context, s *session, argv []string) (*runner.Command, error) {
	c, err := runner.New(ctx, runner.Options{Argv: argv, Env: a.env, Out: a.out, Err: a.err, Log: s.log, Running: &a.running})
	if err != nil {
		return nil, err
	}
	s.troubles = append(s.troubles, c.Troubles()...)
	return c, nil
}

// handlerArgs requires a topic or a pattern, and allows a command only after --.
func handlerArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		dash := c.ArgsLenAtDash()
		switch {
		case len(args) == 0 || dash == 0:
			return misused(strings.ToLower(what), "%s is missing", what)
		case dash < 0 && len(args) > 1 || dash > 1:
			return misused("argument", "unexpected argument %q; write -- in front of the command", args[1])
		case dash == len(args):
			return misused("command", "CMD is missing after --")
		case dash > 0 && isFlag(c, args[dash]):
			return fmt.Errorf("flag %s is after --, where CMD begins; write bellhop %s %s %s -- CMD", args[dash], c.Name(), args[0], args[dash])
		}
		return nil
	}
}

// isFlag reports whether a word is a flag of a command.
func isFlag(c *cobra.Command, word string) bool {
	name, _, _ := strings.Cut(word, "=")
	long, ok := strings.CutPrefix(name, "--")
	return ok && c.Flags().Lookup(long) != nil || name == "-h"
}

// check reports the first flag that is out of range.
func (f workFlags) check(c *cobra.Command) error {
	for _, flag := range []struct {
		name  string
		value int
	}{{"concurrency", f.concurrency}, {"count", f.count}} {
		if c.Flags().Changed(flag.name) && flag.value < 1 {
			return fault.New(flag.name, "%s %d: use 1 or more", flag.name, flag.value)
		}
	}
	return nil
}

// work handles messages until ctx ends, or f.count were acknowledged or died; 0 is no limit.
func work(ctx context.Context, s *session, topic string, handler subscribers.Handler, f workFlags, w workOptions) error {
	o, count := subscribers.HandleOptions{Concurrency: f.concurrency, MinAge: w.age}, f.count
	of := s.config.Subscriber(s.log)
	of.Name, of.Version = w.name, thisBuild().Version
	sub, err := subscribers.NewSubscriber(s.store, of)
	if err != nil {
		return err
	}
	defer s.logStop(ctx, "topic", topic)()
	if count > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		o.Concurrency = min(o.Concurrency, count)
		var died func()
		handler, died = counted(ctx, stop, handler, count)
		ended := func(subscribers.Death) { died() }
		o.OnDead, o.OnDropped = ended, ended
	}
	if err := sub.Handle(topic, handler, o); err != nil {
		return err
	}
	s.warnOfBranches(ctx, topic)
	s.log.Info("waiting for messages", "topic", topic)
	s.manager.Ready()
	return sub.Run(ctx)
}

// warnOfBranches logs what the doctor would say of a worker of a topic that has branches, or of what is none.
func (s *session) warnOfBranches(ctx context.Context, topic string) {
	of, name := record.SplitBranch(topic)
	settings, err := s.store.Of(of).Settings(ctx, of)
	if err != nil {
		return // the worker meets that, too
	}
	if found, remedy := doctor.Misplaced(of, name, 1, settings.Settings); found != "" {
		s.log.Warn(found, "topic", topic, "remedy", remedy)
	}
}

// logStop reports, when ctx ends, that running handlers are awaited. The caller
// calls end at the end, after which nothing is reported.
func (s *session) logStop(ctx context.Context, key, name string) (end func()) {
	reported := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(reported)
		s.manager.Stopping(s.config.StopWithin())
		s.log.Info("stopping: waiting for running handlers; a second signal kills them", key, name)
	})
	return func() {
		if !stop() {
			<-reported
		}
	}
}

// counted calls stop once count messages were handled or died; the caller reports
// each death by died. Further messages are released untouched, but only after the
// stop: before, they would only be claimed again.
func counted[M any](ctx context.Context, stop func(), handler func(context.Context, *M) error, count int) (handle func(context.Context, *M) error, died func()) {
	turns := make(chan struct{}, count)
	for range count {
		turns <- struct{}{}
	}
	var left atomic.Int64
	left.Store(int64(count))
	finished := func() {
		if left.Add(-1) == 0 {
			stop()
		}
	}
	handle = func(handling context.Context, m *M) error {
		select {
		case <-ctx.Done():
			return subscribers.ErrStopping
		case <-handling.Done():
			return context.Cause(handling)
		case <-turns:
		}
		err := handler(handling, m)
		if err != nil {
			turns <- struct{}{} // for the next attempt
			return err
		}
		finished()
		return nil
	}
	return handle, func() {
		select {
		case <-turns: // it has no next attempt
		default:
		}
		finished()
	}
}

// shown is a message as work --json prints it, or a broadcast as listen does.
type shown struct {
	api.Key
	Position notify.Position      `json:"position,omitzero"`  // of a broadcast
	Bookmark subscribers.Bookmark `json:"bookmark,omitempty"` // behind it, where the position alone is none
	Attempt  int                  `json:"attempt,omitempty"`  // 0 if a failure is not repeated
	LateMs   int64                `json:"late_ms"`
	FirstDue time.Time            `json:"first_due,omitzero"` // of the first attempt of a message
	api.Handed
}

// show is the handler that prints a message.
func (a *app) show(ctx context.Context, d *subscribers.Delivery) error {
	late, out := d.Late(), outlet.UpTo(ctx, a.out)
	if a.json {
		return printJSONTo(out, shown{Key: api.Key{Topic: d.Topic, ID: d.ID}, Attempt: d.Attempt, LateMs: api.Ms(late), FirstDue: d.FirstDue.UTC(), Handed: api.HandedOf(d.Due, d.Record, d.Fence)})
	}
	return terminal.Printf(out, "%s  attempt %d  %s late  %s\n", d.ID, d.Attempt, text.Lateness(late), text.OneLine(d.Body))
}
