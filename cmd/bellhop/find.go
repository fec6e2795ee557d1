package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
)

// findFlags are the flags of find, and of acts on all dead letters.
type findFlags struct {
	list
	all, dryRun bool
	output      string
}

// acts are what find can do with all that matches, and the words for what was done.
var acts = map[find.Kind]struct{ about, past string }{
	find.Requeue:    {"make the dead ones ready again", "requeued"},
	find.Cancel:     {"cancel the scheduled, ready and blocked ones", "cancelled"},
	find.Reschedule: {"give the scheduled, ready and blocked ones another due time: --delay or --due", "rescheduled"},
	find.Purge:      {"remove the dead ones for good", "purged"},
}

func (a *app) findCommand() *cobra.Command {
	var f findFlags
	c := a.jsonFlag(&cobra.Command{
		Use:   "find TERM...",
		Short: "Find messages by what they hold, and act on all that match",
		Long: `Find messages of all topics. All terms must hold:

  topic:order.*,refund    of these topics, or those of a pattern
  state:dead,leased       scheduled, ready, blocked, leased, dead or done
  id:order-47*            * stands for any text
  reason~timeout          in the reason of a death
  header.tenant=acme      with this header
  key:acct-7              with this key
  group:import-7          in this group
  body~4711               in the body
  due<2026-12-01          due before this day of UTC, wherever the command runs;
                          also a time of RFC 3339, now, or from now
  due>-1h                 due after

A value with spaces stands in double quotes: 'reason~"connection reset"'. Quote
terms for the shell, which takes < > * itself.

With --requeue, --cancel, --purge or --reschedule act on all that match, once
their number was shown and confirmed, or at once with --all. Requeue and purge are for
dead letters, the others for scheduled, ready and blocked messages; what matches
otherwise stays as it is. Ctrl-C stops; the cursor that is printed then goes on.`,
		Example: `  bellhop find state:dead 'reason~timeout'
  bellhop find id:order-4711
  bellhop find 'topic:order.*' 'header.tenant=acme' --json | jq '.messages[].id'
  bellhop find state:dead 'reason~timeout' --requeue
  bellhop find 'topic:order.*' --reschedule --delay 1h`,
		Args: takesTerms,
	})
	c.ValidArgsFunction = a.completeTerms
	flags := c.Flags()
	flags.StringVar(&f.output, "export", "", "write all that match as lines of JSON to this "+outputFile)
	exclusive := []string{"export"}
	for _, kind := range find.Kinds() {
		flags.Bool(string(kind), false, acts[kind].about)
		exclusive = append(exclusive, string(kind))
	}
	c.MarkFlagsMutuallyExclusive(exclusive...)
	addParams(c, calls.Named("act"), "stop", "delay", "due")
	f.flags(c, "messages to show", goOn)
	f.addTo(flags)
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		kind := givenAct(c)
		question := strings.Join(args, " ")
		switch err := f.checkAct(c, kind); {
		case err != nil:
			return wrong(err)
		case kind != "":
			return a.actOnAll(ctx, s, c, &f, kind, question)
		}
		f.asks(s, "find", map[string]string{"q": question})
		if f.output != "" {
			return a.exportList(ctx, &f.list, f.output)
		}
		return printList(ctx, a, &f.list, func(all []notify.Info) error { return a.printFound(ctx, s, &f.list, all) })
	})
}

// addTo adds the flags that every act on all that match has.
func (f *findFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.all, "all", false, "act on all that match, without asking")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count those that an act is for")
}

// takesTerms requires a question.
func takesTerms(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misused("q", "TERM is missing, such as state:dead or id:order-4711")
	}
	return nil
}

// givenAct returns what to do with what is found; empty: nothing.
func givenAct(c *cobra.Command) find.Kind {
	for _, kind := range find.Kinds() {
		if given, _ := c.Flags().GetBool(string(kind)); given { // fails for no flag
			return kind
		}
	}
	return ""
}

// checkAct returns the error of flags that do not go with an act, or without one.
func (f *findFlags) checkAct(c *cobra.Command, kind find.Kind) error {
	if kind != "" {
		if f.cursor != "" && !f.all && !f.dryRun {
			return misused("all", "--cursor goes on with an act: give --all, too")
		}
		return nil
	}
	for _, flag := range []string{"all", "dry-run", "stop", "delay", "due"} {
		if c.Flags().Changed(flag) {
			return misused(flag, "unexpected flag --%s: it is for an act, such as --requeue", flag)
		}
	}
	return nil
}

// printFound prints what is found as a table.
func (a *app) printFound(ctx context.Context, s *session, l *list, all []notify.Info) error {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no messages")
		return nil
	}
	now := a.now(ctx, s)
	rows := [][]string{{"TOPIC", "ID", "STATE", "TIME", "REASON OR BODY"}}
	for _, i := range all {
		at, about := timeAndText(i)
		rows = append(rows, []string{i.Topic, i.ID, i.State.String(), text.Relative(at, now), about})
	}
	a.printRows(rows, 0, 1, 4)
	a.printMore(l)
	return nil
}

// timeAndText returns the time of a message in its state, and what a list shows of it.
func timeAndText(i notify.Info) (at time.Time, about string) {
	switch i.State {
	case notify.Leased:
		return i.Until, text.OneLine(i.Body)
	case notify.Dead:
		return i.Died, terminal.Quote(store.Headline(i.Reason))
	case notify.Done:
		return i.Ended, text.OneLine(i.Result)
	}
	return i.Due, text.OneLine(i.Body)
}

// actOnAll acts on all that match a question, as the flags of the command say, or counts them.
func (a *app) actOnAll(ctx context.Context, s *session, c *cobra.Command, f *findFlags, kind find.Kind, question string) error {
	params, err := paramsOf(c, calls.Named("act"), []string{string(kind)})
	if err != nil {
		return wrong(err)
	}
	params["q"] = question
	if f.dryRun {
		sum, err := a.act(ctx, s, params)
		return a.printActed("matched", sum.Matched, sum, err)
	}
	if !f.all {
		if err := a.confirmAct(ctx, s, kind, params); err != nil {
			return err
		}
		params["all"] = "true"
	}
	sum, err := a.act(ctx, s, params)
	if left := sum.Matched - sum.Done; left > 0 {
		a.complain(fmt.Sprintf("%s changed meanwhile, or lost the record, and stayed as it was", text.Plural(left, "message")))
	}
	return a.printActed(acts[kind].past, sum.Done, sum, err)
}

// act repeats an act until all is done, and returns the sum, also with an error.
func (a *app) act(ctx context.Context, s *session, params map[string]string) (sum calls.Acted, err error) {
	defer a.clearLooked()
	params = maps.Clone(params)
	for {
		one, err := ask[calls.Acted](ctx, s, "act", params)
		if err != nil {
			return sum, stopped(params["cursor"], err)
		}
		sum = calls.Acted{Matched: sum.Matched + one.Matched, Done: sum.Done + one.Done, Looked: one.Looked}
		a.drawLooked(one.Looked)
		if one.Cursor == "" {
			return sum, one.Missing.Err()
		}
		params["cursor"] = one.Cursor
	}
}

// printActed prints how many messages an act changed, or would, also if err ended it early.
func (a *app) printActed(what string, n int, sum calls.Acted, err error) error {
	if !a.json || err != nil && n == 0 {
		return a.printCount(what, n, err)
	}
	return cmp.Or(err, a.printJSON(sum))
}

// confirmAct counts what matches, and asks. Without a terminal it requires --all.
func (a *app) confirmAct(ctx context.Context, s *session, kind find.Kind, params map[string]string) error {
	if !text.IsTerminal(a.in) {
		return wrong(misused("all", "%s is for all that match: give --all to mean it, or --dry-run to count them", kind))
	}
	params = maps.Clone(params)
	params["dry_run"] = "true"
	sum, err := a.act(ctx, s, params)
	if err != nil {
		return err
	}
	if sum.Matched == 0 {
		return errors.New("no message matches that it is for")
	}
	verb := strings.ToUpper(string(kind[:1])) + string(kind[1:])
	return a.ask(ctx, fmt.Sprintf("%s %s messages?", verb, text.Thousands(strconv.Itoa(sum.Matched))), "nothing was "+acts[kind].past)
}

// completeTerms completes the terms of a question, with states, and topics from Redis.
func (a *app) completeTerms(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	name, values, known := strings.Cut(begun, ":")
	values, last := values[:strings.LastIndexByte(values, ',')+1], values[strings.LastIndexByte(values, ',')+1:]
	var found []string
	switch {
	case known && name == "topic":
		found, _ = a.found(a.topicsLike)(c, args, last)
	case known && name == "state":
		found = states()
	default:
		var begins []string
		for _, term := range find.Terms() {
			if strings.HasPrefix(term.Begin, begun) {
				begins = append(begins, term.Begin)
			}
		}
		return begins, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	var terms []string
	for _, one := range found {
		if strings.HasPrefix(one, last) {
			terms = append(terms, name+":"+values+one)
		}
	}
	return terms, cobra.ShellCompDirectiveNoFileComp
}
