package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/outlet"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/runner"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// listenFlags are the flags of listen. All but from and count are for a named listener.
type listenFlags struct {
	workFlags
	attempts          int
	name, from, lease string
}

// broadcastHandler handles one broadcast.
type broadcastHandler func(ctx context.Context, b *subscribers.Broadcast) error

// listenHelp is the help of bellhop listen.
const listenHelp = `Receive the broadcasts of a topic, or of those that match a pattern, until
SIGTERM or Ctrl-C. In a pattern * stands for any one token, and > at the end for
one or more. Quote the pattern: both are special to the shell.

Without CMD each broadcast is printed: its position, topic and id, how late it
is, and its body. With CMD the command is run for each, one after the other, with
the body on its standard input, and MESSAGE_TOPIC, MESSAGE_ID, MESSAGE_POSITION,
MESSAGE_BOOKMARK, MESSAGE_ATTEMPT, MESSAGE_DUE, MESSAGE_CONTENT_TYPE and, for each
header, MESSAGE_HEADER_NAME in its environment. A failure is logged, and the next
broadcast follows, but while CMD cannot be started the broadcast waits for it. At the end a bookmark is logged: give it to --from to continue.
Each broadcast has one, too: its position or, in a store of several shards and for
a pattern, a longer word that --json prints.

With --name the position is kept in Redis. Processes of one name share the
broadcasts, and one that returns gets what was sent meanwhile. The exit code of CMD
decides:

  0   done
  65  never to be done: the broadcast is given up at once
  75  not yet: again after a backoff, up to 1,000 times; uses up no attempt
  any other code, or a signal: again after a backoff, until out of attempts

If a process dies, its broadcasts go to another when their leases end; if it cannot
start CMD, at once, and no attempt is used up. A name
belongs to one pattern and one beginning, until bellhop listeners remove.

Broadcasts that were removed before they were read (see BELLHOP_BROADCAST_KEEP)
are a gap. It is logged, and --json prints a line {"gap":{...}} in their place. If
Redis loses all its data, that is a gap, too, with TOPIC|PATTERN as its topic: a
name is registered anew, and listening continues.

The deaths of a topic are broadcasts of '$dead.TOPIC', in quotes: JSON with the topic,
the id and the reason. There are some only while a name listens to them. Only a
pattern that begins with $dead matches them.`

func (a *app) listenCommand() *cobra.Command {
	var f listenFlags
	c := a.jsonFlag(&cobra.Command{
		Use:   "listen TOPIC|PATTERN [flags] [-- CMD ARGS...]",
		Short: "Receive broadcasts: run a command for each, or print them",
		Long:  listenHelp,
		Example: `  bellhop listen prices.gold
  bellhop listen 'prices.*' --from beginning --json
  bellhop listen 'prices.>' --from 2025-01-01T00:00:00Z --count 1
  bellhop listen '$dead.order.>' --name on-call -- ./page-somebody.sh
  bellhop listen 'prices.>' --name all -- sh -c 'echo "$MESSAGE_TOPIC"; cat'`,
		Args: handlerArgs("TOPIC|PATTERN"),
	})
	f.define(a, c)
	return a.withOutlets(c, func(ctx context.Context, s *session, args []string) error {
		o, err := f.options(c, s)
		if err != nil {
			return err
		}
		var t tally
		handler := broadcastHandler(counting(&t, a.showBroadcast(s, f.name != "")))
		if len(args) > 1 {
			cmd, err := a.newCommand(ctx, s, args[1:])
			if err != nil {
				return err
			}
			handler = counting(&t, cmd.ReceiveNamed)
			if f.name == "" {
				handler = tolerant(s.log, runner.UntilStarted(ctx, counting(&t, cmd.Receive)))
			}
		} else if a.json {
			o.OnGap = func(g subscribers.Gap) { a.showGap(ctx, g) }
		}
		defer a.sum(&t)
		defer s.reportStatus(ctx, &t)()
		return listen(ctx, s, args[0], handler, o, f.count)
	})
}

// define adds the flags to a command.
func (f *listenFlags) define(a *app, c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.name, "name", "", "keep the position in Redis, and share the broadcasts with other processes of this name")
	_ = c.RegisterFlagCompletionFunc("name", a.found(a.listenersLike)) // fails for no flag
	flags.StringVar(&f.from, "from", "", "begin now, at the beginning, at a time of RFC 3339, or after a bookmark (default: now; with --name at its position)")
	flags.IntVar(&f.count, "count", 0, "end when this many were handled (default: never)")
	flags.IntVar(&f.concurrency, "concurrency", 1, "with --name: broadcasts handled at the same time")
	flags.IntVar(&f.attempts, "attempts", 0, "with --name: attempts of a broadcast (default: BELLHOP_MAX_ATTEMPTS)")
	flags.StringVar(&f.lease, "lease", "", "with --name: lease of a broadcast, extended while it is handled (default: BELLHOP_LEASE)")
}

// options returns the options of the flags, and of the configuration for the rest.
func (f *listenFlags) options(c *cobra.Command, s *session) (o subscribers.ListenOptions, err error) {
	given := c.Flags().Changed
	if given("name") && f.name == "" {
		return o, wrong(misused("name", "--name is empty; leave it out"))
	}
	for _, name := range []string{"concurrency", "attempts", "lease"} {
		if given(name) && f.name == "" {
			return o, wrong(misused(name, "unexpected flag --%s: it is for a named listener; give --name, too", name))
		}
	}
	if given("from") {
		if o.From, err = subscribers.ParseFrom(f.from); err != nil {
			return o, err
		}
	}
	if err := f.check(c); err != nil || f.name == "" {
		return o, err
	}
	from := o.From
	o = s.config.NamedListener()
	o.Name, o.From, o.Concurrency = f.name, from, f.concurrency
	if given("attempts") {
		o.MaxAttempts = f.attempts
	}
	if given("lease") {
		o.Lease, err = fields.ParseDuration("lease", f.lease)
	}
	return o, err
}

// check reports the first flag that is given and out of range.
func (f *listenFlags) check(c *cobra.Command) error {
	if err := f.workFlags.check(c); err != nil {
		return err
	}
	if c.Flags().Changed("attempts") && f.attempts < 1 {
		return fault.New("attempts", "attempts %d: use 1 or more", f.attempts)
	}
	if lease, err := fields.ParseDuration("lease", f.lease); err == nil && lease == 0 && c.Flags().Changed("lease") {
		return fault.New("lease", "lease 0: use %v to %v", record.MinLease, record.MaxLease)
	}
	return nil
}

// readyWithin is how long a service that starts waits for Redis until it reports
// ready. Services after it may broadcast then, so it should listen by then.
const readyWithin = 5 * time.Second

// listen handles broadcasts until ctx ends, or count were handled; 0 is no limit.
func listen(ctx context.Context, s *session, pattern string, handler broadcastHandler, o subscribers.ListenOptions, count int) error {
	defer s.logStop(ctx, "pattern", pattern)()
	if count > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		var givenUp func()
		handler, givenUp = counted(ctx, stop, handler, count)
		if o.Name != "" {
			o.Concurrency = min(o.Concurrency, count)
			o.OnGivenUp = func(*subscribers.Broadcast, string) { givenUp() }
		}
	}
	late := time.AfterFunc(readyWithin, s.manager.Ready) // Redis may be unavailable
	defer late.Stop()
	l, err := subscribers.NewListener(s.store, subscribers.ListenerOptions{Version: thisBuild().Version, Grace: s.config.ShutdownTimeout, Logger: s.log})
	if err != nil {
		return err
	}
	if o.Name == "" {
		return listenPlain(ctx, s, l, pattern, handler, o)
	}
	o.OnStart = func(subscribers.Bookmark) {
		s.log.Info("listening", "pattern", pattern, "name", o.Name)
		s.manager.Ready()
	}
	return l.Listen(ctx, pattern, handler, o)
}

// listenPlain listens without a name. When ctx ends, the handler may continue for as
// long as that of a named listener. At the end the position is logged.
func listenPlain(ctx context.Context, s *session, l *subscribers.Listener, pattern string, handler broadcastHandler, o subscribers.ListenOptions) error {
	grace, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(s.config.ShutdownTimeout, func() { interrupt(subscribers.ErrStopping) })
	})()
	var last subscribers.Bookmark // empty: it has not begun
	o.OnStart = func(at subscribers.Bookmark) {
		last = at
		s.log.Info("listening", "pattern", pattern, "after", at)
		s.manager.Ready()
	}
	err := l.Listen(ctx, pattern, func(_ context.Context, b *subscribers.Broadcast) error {
		err := handler(grace, b)
		if err == nil {
			last = b.Bookmark()
		}
		return err
	}, o)
	if last != "" {
		s.log.Info("stopped; give this bookmark to --from to continue", "pattern", pattern, "bookmark", last)
	}
	if errors.Is(err, subscribers.ErrStopping) {
		return nil
	}
	return err
}

// tolerant logs a handler's failure, and continues: without a name no broadcast is delivered again.
func tolerant(log *slog.Logger, handler broadcastHandler) broadcastHandler {
	return func(ctx context.Context, b *subscribers.Broadcast) error {
		err := handler(ctx, b)
		if err != nil && ctx.Err() != nil || errors.Is(err, subscribers.ErrStopping) {
			return err
		}
		if err != nil {
			log.Warn("command failed", "topic", b.Topic, "id", b.ID, "position", b.Position, "reason", err)
		}
		return nil
	}
}

// showBroadcast returns the handler that prints a broadcast. Only a named
// listener has attempts.
func (a *app) showBroadcast(s *session, named bool) broadcastHandler {
	return func(ctx context.Context, b *subscribers.Broadcast) error {
		now, _ := s.store.Now(ctx) // it has just sent the broadcast
		late, out := max(now.Sub(b.Due), 0), outlet.UpTo(ctx, a.out)
		if !a.json {
			return terminal.Printf(out, "%s  %s  %s  %s late  %s\n", b.Position, b.Topic, b.ID, text.Lateness(late), text.OneLine(b.Body))
		}
		one := shown{Key: api.Key{Topic: b.Topic, ID: b.ID}, Position: b.Position, Bookmark: apart(b.Bookmark(), b.Position), LateMs: api.Ms(late), Handed: api.HandedOf(b.Due, b.Record, 0)}
		if named {
			one.Attempt = b.Attempt
		}
		return printJSONTo(out, one)
	}
}

// gapJSON is a gap as listen --json prints it.
type gapJSON struct {
	Gap      api.Gap              `json:"gap"`
	Bookmark subscribers.Bookmark `json:"bookmark,omitempty"` // behind it, where the position alone is none
}

// apart returns a bookmark, unless it is just a position.
func apart(b subscribers.Bookmark, p notify.Position) subscribers.Bookmark {
	if b == subscribers.At(p) {
		return ""
	}
	return b
}

// showGap prints a gap, which is logged as well.
func (a *app) showGap(ctx context.Context, g subscribers.Gap) {
	_ = printJSONTo(outlet.UpTo(ctx, a.out), gapJSON{api.Gap{Topic: g.Topic, After: g.After, UpTo: g.UpTo}, apart(g.Bookmark(), g.UpTo)}) // the next broadcast reports an output that fails
}
