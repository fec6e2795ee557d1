package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// inspectFlags are the flags of inspect. All but wait are for a list.
type inspectFlags struct {
	list
	state, wait string
	broadcasts  bool
}

func (a *app) inspectCommand() *cobra.Command {
	var f inspectFlags
	c := a.jsonFlag(&cobra.Command{
		Use:   "inspect TOPIC [ID]",
		Short: "Show a message, or list those of a topic",
		Long: `Show a message: its state, its times, who has it, its failed attempts, its headers,
its body, and the result of one that succeeded and is kept. Without ID, list the
messages of the topic in one state, by time, a page at a time, or its scheduled
broadcasts.

With --wait wait until the message ends, and show what is kept of it then. The exit
code says how it ended:

  0   done: it was acknowledged, and is kept (bellhop work --keep)
  1   failed: there is no such message, or Redis is away
  4   dead
  5   gone: it ended, and nothing is kept of it; whether it succeeded is unknown
  6   it has not ended yet`,
		Example: `  bellhop inspect order.timeout order-4711
  bellhop inspect report report-7 --wait 30s
  bellhop inspect order.timeout --state ready --limit 100
  bellhop inspect prices.gold --broadcasts`,
		Args: takes("TOPIC", "[ID]"),
	})
	flags := c.Flags()
	flags.StringVar(&f.state, "state", "scheduled", "without ID: list the messages that are scheduled, ready, blocked, leased, dead or done")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	flags.BoolVar(&f.broadcasts, "broadcasts", false, "without ID: list the scheduled broadcasts")
	f.flags(c, "without ID: messages to show", "without ID: "+goOn)
	flags.StringVar(&f.wait, "wait", "", "with ID: wait for so long until the message ends, such as 30s")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		switch err := f.checkFlags(c, args); {
		case err != nil:
			return wrong(err)
		case f.wait != "":
			return a.await(ctx, s, args[0], args[1], f.wait)
		case len(args) == 2:
			return a.inspect(ctx, s, args[0], args[1])
		}
		if f.broadcasts {
			f.state = "broadcasts"
		}
		f.asks(s, "list", map[string]string{"topic": args[0], "state": f.state})
		return printList(ctx, a, &f.list, func(all []notify.Info) error {
			return cmp.Or(a.printMessages(&f.list, all, a.now(ctx, s)), a.printElsewhere(ctx, s, args[0], len(all)))
		})
	})
}

// printElsewhere says in which states a topic has messages, below a list without any.
func (a *app) printElsewhere(ctx context.Context, s *session, topic string, listed int) error {
	if listed > 0 {
		return nil
	}
	counts, err := s.inspector.Count(ctx, topic)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		n           int64
		words, flag string
	}{
		{counts[0].Scheduled, "scheduled", "--state scheduled"},
		{counts[0].Ready, "ready", "--state ready"},
		{counts[0].Blocked, "blocked", "--state blocked"},
		{counts[0].Leased, "leased", "--state leased"},
		{counts[0].Dead, "dead", "--state dead"},
		{counts[0].Broadcasts, "scheduled broadcasts", "--broadcasts"},
	} {
		if one.n > 0 {
			terminal.Printf(a.out, "%d %s: bellhop inspect %s %s\n", one.n, one.words, topic, one.flag)
		}
	}
	return nil
}

// checkFlags rejects flags that do not apply.
func (f *inspectFlags) checkFlags(c *cobra.Command, args []string) error {
	for _, name := range []string{"state", "broadcasts", "limit", "cursor"} {
		if len(args) == 2 && c.Flags().Changed(name) {
			return misused(name, "unexpected flag --%s: it is for a list, without ID", name)
		}
	}
	if waits := c.Flags().Changed("wait"); waits && len(args) < 2 {
		return misused("wait", "unexpected flag --wait: it is for one message; give its ID")
	} else if waits && f.wait == "" {
		return misused("wait", "--wait is empty; leave it out")
	}
	if f.broadcasts && c.Flags().Changed("state") {
		return misused("state", "unexpected flag --state: only scheduled broadcasts are listed; bellhop listen --from beginning prints sent ones")
	}
	return nil
}

func (a *app) inspect(ctx context.Context, s *session, topic, id string) error {
	info, err := s.inspector.Inspect(ctx, topic, id)
	if errors.Is(err, notify.ErrNotFound) && !a.json {
		return cmp.Or(a.printCopies(ctx, s, topic, id), err)
	}
	if err != nil {
		return err
	}
	return a.printInfo(ctx, s, info)
}

// printCopies says where the copies of a message are, if its topic has branches. One that took the place of another id is found by that.
func (a *app) printCopies(ctx context.Context, s *session, topic, id string) error {
	settings, err := s.inspector.Settings(ctx, topic)
	if err != nil {
		return err
	}
	for _, branch := range settings.BranchesOf(topic) {
		copied, err := s.inspector.Inspect(ctx, branch, id)
		switch {
		case errors.Is(err, notify.ErrNotFound):
			terminal.Printf(a.out, "%s: not there\n", branch)
		case err != nil:
			return err
		case copied.By != "":
			terminal.Printf(a.out, "%s: %s by %s\n", branch, copied.State, copied.By)
		default:
			terminal.Printf(a.out, "%s: %s\n", branch, copied.State)
		}
	}
	return nil
}

// await prints a message once it ended, or as it is when the wait is over. The error is an
// endedAs unless the message is done.
func (a *app) await(ctx context.Context, s *session, topic, id, wait string) error {
	most, err := fields.ParseDuration("wait", wait)
	if err != nil {
		return err
	}
	if most <= 0 {
		return fault.New("wait", "wait %s: use 1ms or more", wait)
	}
	waiting, stop := context.WithTimeout(ctx, most)
	defer stop()
	info, err := api.Awaited(s.inspector.Await(waiting, topic, id))
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil { // before the first look
		info, err = s.inspector.Inspect(ctx, topic, id)
	}
	switch {
	case errors.Is(err, notify.ErrGone):
		a.complain(err.Error())
		return endedAs{exitGone}
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err := a.printInfo(ctx, s, info); err != nil {
		return err
	}
	switch {
	case info.State == notify.Dead:
		return endedAs{exitDead}
	case info.State != notify.Done:
		return endedAs{exitEarly}
	case info.Ended.IsZero(): // only its id is taken
		return endedAs{exitGone}
	}
	return nil
}

// printInfo prints what is known of a message.
func (a *app) printInfo(ctx context.Context, s *session, i notify.Info) error {
	if a.json {
		return a.printJSON(api.MessageOf(i))
	}
	now := a.now(ctx, s)
	behind := behindOf(ctx, s, i, now)
	if err := text.Table(a.out, func(w io.Writer) { a.writeInfo(w, i, behind, now) }); err != nil {
		return err
	}
	if len(i.History) > 0 {
		fmt.Fprintln(a.out)
		a.printRows(a.historyRows(i.History, now), 2, 3)
	}
	switch {
	case i.State != notify.Done:
		terminal.Printf(a.out, "\n%s\n", text.OneLine(i.Body))
	case len(i.Result) > 0:
		terminal.Printf(a.out, "\n%s\n", text.OneLine(i.Result))
	}
	return nil
}

// behindOf returns for what a message waits that is blocked, and, if that can be read, who has that.
func behindOf(ctx context.Context, s *session, i notify.Info, now time.Time) string {
	if i.State != notify.Blocked {
		return ""
	}
	one := []store.Key{{Key: i.Key}}
	if err := s.store.Of(i.Topic).ReadSeats(ctx, i.Topic, one); err != nil || len(one[0].Seats) == 0 {
		return strings.Join(i.Behind, " ")
	}
	return calls.Behind(calls.HoldersOf(one[0].Seats), func(t time.Time) string { return text.Distance(t, now) })
}

// historyRows returns the table of the attempts that failed.
func (a *app) historyRows(attempts []notify.Attempt, now time.Time) [][]string {
	rows := [][]string{{"FAILED", "TOOK", "BY", "REASON"}}
	for _, t := range attempts {
		took := "-"
		if t.Took >= 0 {
			took = text.Rough(t.Took)
		}
		rows = append(rows, []string{a.when(t.Ended, now), took, text.Dash(t.By), t.Reason})
	}
	return rows
}

// writeInfo writes all that is known of a message except its body. Behind is what it waits for, if it is blocked.
func (a *app) writeInfo(w io.Writer, i notify.Info, behind string, now time.Time) {
	row := rowsTo(w)
	row("topic", i.Topic)
	row("id", i.ID)
	row("mode", i.Mode())
	state := i.State.String()
	if i.Left != nil {
		state += afterGroup(i.AfterGroup, *i.Left)
	}
	row("state", state)
	row("due", a.when(i.Due, now))
	if !i.FirstDue.Equal(i.Due) {
		row("first due", a.when(i.FirstDue, now))
	}
	if i.State == notify.Done {
		row("acknowledged", a.when(i.Ended, now))
		row("by", i.By)
		row("id taken until", a.when(i.Until, now))
	} else {
		row("leased until", a.when(i.Until, now))
		row("leased by", i.By)
		row("leased since", a.when(i.Since, now))
		if i.Progress != nil {
			row("progress", i.Progress.String())
		}
		row("stopping since", a.when(i.Stop, now))
	}
	row("behind", behind)
	row("died", a.when(i.Died, now))
	rowOfLines(row, "reason", i.Reason)
	row("attempts used", fmt.Sprint(i.Attempts))
	row("put off", fmt.Sprint(i.Snoozed))
	row("expires", a.when(i.Expires, now))
	row("published", a.when(i.Published, now))
	writeAsked(row, i.Record)
	if i.Fault != nil {
		row("fault", i.Fault.Error())
	}
	switch {
	case i.State != notify.Done:
		row("body", text.Plural(len(i.Body), "byte"))
	case i.Result != nil:
		row("result", text.Plural(len(i.Result), "byte"))
	}
	if i.Next == nil {
		return
	}
	next := func(name, value string) { row("next "+name, value) }
	next("due", a.when(i.Next.FirstDue, now))
	writeAsked(next, *i.Next)
	next("body", cut(text.OneLine(i.Next.Body)))
}

// rowsTo returns a function that writes a named value, if there is one.
func rowsTo(w io.Writer) func(name, value string) {
	return func(name, value string) {
		if value != "" && value != "-" && value != "0" {
			terminal.Printf(w, "%s\t%s\n", name, value)
		}
	}
}

// rowOfLines writes a row of each line of a text, such as a traceback, the first one with the name.
func rowOfLines(row func(name, value string), name, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			row(name, line)
			name = ""
		}
	}
}

// writeAsked writes what the publisher of a message asked for.
func writeAsked(row func(name, value string), r notify.Record) {
	for _, one := range asked.Of(r).Named() {
		row(one.Name, one.Text)
	}
}

// printMessages prints messages of a topic as a table.
func (a *app) printMessages(l *list, all []notify.Info, now time.Time) error {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no messages")
		return nil
	}
	about := "REASON OR BODY"
	if all[0].State == notify.Done {
		about = "RESULT"
	}
	err := text.Table(a.out, func(w io.Writer) {
		fmt.Fprintln(w, "ID\tSTATE\tTIME\tATTEMPTS\t"+about)
		for _, i := range all {
			at, about := timeAndText(i)
			terminal.Printf(w, "%s\t%s\t%s\t%d\t%s\n", i.ID, i.State, a.when(at, now), i.Attempts, cut(about))
		}
	})
	a.printMore(l)
	return err
}

// cut shortens a text for a table.
func cut(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

func (a *app) cancelCommand() *cobra.Command {
	var c *cobra.Command
	c = callCommand(a, "cancel", &cobra.Command{
		Use:   "cancel TOPIC ID",
		Short: "Cancel a message",
		Long: `Cancel a message with what follows it (publish --then after), so that it is not handed
out any more. A leased message is refused. A broadcast can be cancelled until it is sent. The id is free at once, also
one that stays taken for the --unique-for of a message that has ended.

With --stop a leased message is cancelled, too: its worker is told to stop, and the
message is gone, with what follows it, once that has ended, and when its lease ends at
the latest. One that is acknowledged before the worker hears of that stays
acknowledged, and what follows it is handed out.

With --next cancel the message that follows the one of this id (publish --then after)
instead, and leave that one.`,
		Example: `  bellhop cancel order.timeout order-4711
  bellhop cancel report 2026-11 --stop`,
	}, func(_ context.Context, _ *session, args []string, done calls.Cancelled) error {
		switch {
		case done.Stopping:
			terminal.Printf(a.out, "%s %s is being stopped, a worker has it; it is cancelled, with what follows it, when its lease ends\n", args[0], args[1])
		case c.Flag("next").Value.String() == "true":
			terminal.Printf(a.out, "%s %s: the next one is cancelled\n", args[0], args[1])
		default:
			terminal.Printf(a.out, "%s %s cancelled, it was %s\n", args[0], args[1], done.Was)
		}
		return nil
	}, "next", "stop")
	c.MarkFlagsMutuallyExclusive("next", "stop")
	return c
}

func (a *app) rescheduleCommand() *cobra.Command {
	call := calls.Named("reschedule")
	c := a.jsonFlag(&cobra.Command{
		Use:   "reschedule TOPIC ID",
		Short: "Give a message another due time",
		Long: `Give a scheduled, ready or blocked message, or a scheduled broadcast, another due
time. A leased message is refused; bellhop dead requeue requeues a dead one.`,
		Example: `  bellhop reschedule order.timeout order-4711 --delay 1h
  bellhop reschedule order.timeout order-4711 --now`,
		Args: takes("TOPIC", "ID"),
	})
	addParams(c, call, "delay", "due", "zone")
	c.Flags().Bool("now", false, "due at once")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		given := slices.DeleteFunc([]string{"delay", "due", "now"}, func(flag string) bool { return !c.Flags().Changed(flag) })
		if len(given) != 1 {
			return wrong(misused("due", "give one of --delay, --due and --now"))
		}
		params, err := paramsOf(c, call, args)
		if err != nil {
			return wrong(err)
		}
		p, err := ask[api.Publication](ctx, s, call.Name, params)
		if err != nil {
			return err
		}
		return a.printPublication(p, a.now(ctx, s))
	})
}
