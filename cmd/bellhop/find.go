package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// findFlags are the flags of find.
type findFlags struct {
	limit                      int
	cursor, output, delay, due string
	requeue, cancel, purge     bool
	stop                       bool
	all, dryRun                bool
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
  body~4711               in the body
  due<2026-12-01          due before this day of UTC, wherever the command runs;
                          also a time of RFC 3339, now, or from now
  due>-1h                 due after

A value with spaces stands in double quotes: 'reason~"connection reset"'. Quote
terms for the shell, which takes < > * itself.

With --requeue, --cancel, --purge or --reschedule-in act on all that match, once
their number was shown and confirmed, or at once with --all. Requeue and purge are for
dead letters, the others for scheduled, ready and blocked messages; what matches
otherwise stays as it is. Ctrl-C stops; the cursor that is printed then goes on.`,
		Example: `  bellhop find state:dead 'reason~timeout'
  bellhop find id:order-4711
  bellhop find 'topic:order.*' 'header.tenant=acme' --json
  bellhop find state:dead 'reason~timeout' --requeue`,
		Args: takesTerms,
	})
	c.ValidArgsFunction = a.completeTerms
	flags := c.Flags()
	flags.IntVar(&f.limit, "limit", 50, "messages to show")
	flags.BoolVar(&f.requeue, "requeue", false, "make the dead ones ready again")
	flags.BoolVar(&f.cancel, "cancel", false, "cancel the scheduled, ready and blocked ones")
	flags.BoolVar(&f.stop, "stop", false, "with --cancel: the leased ones, too, whose workers are told to stop")
	flags.BoolVar(&f.purge, "purge", false, "remove the dead ones for good")
	flags.StringVar(&f.delay, "reschedule-in", "", "make the scheduled, ready and blocked ones due after a `DELAY` from now, such as 1h; 0s: at once")
	flags.StringVar(&f.due, "reschedule-at", "", "make the scheduled, ready and blocked ones due at a `TIME` such as 2030-01-02T15:04:05Z")
	f.addTo(flags)
	flags.StringVar(&f.output, "export", "", "write all that match as lines of JSON to this `FILE`; it is replaced")
	c.MarkFlagsMutuallyExclusive("requeue", "cancel", "purge", "reschedule-in", "reschedule-at", "export")
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		act, err := f.asked(c)
		if err != nil {
			return wrong(err)
		}
		return a.runFind(ctx, args, &f, act)
	})
}

// addTo adds the flags that every act on all that match has.
func (f *findFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.cursor, "cursor", "", "where to go on, as the call before printed")
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

// A findRun is one run of find.
type findRun struct {
	*app
	*findFlags
	session *session
	query   find.Query
	act     find.Act
	drew    bool // progress is on the screen
}

// runFind searches, acts or exports.
func (a *app) runFind(ctx context.Context, args []string, f *findFlags, act find.Act) error {
	if err := f.check(act); err != nil {
		return wrong(err)
	}
	query, err := find.Parse(strings.Join(args, " "))
	if err != nil {
		return err
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.store.Close()
	run := findRun{app: a, findFlags: f, session: s, query: query, act: act}
	switch {
	case act.Kind != "":
		return run.actOnAll(ctx)
	case f.output != "":
		return run.export(ctx)
	case a.json:
		return run.lines(ctx)
	}
	return run.table(ctx)
}

// asked returns what to do with what is found; no kind of act: nothing.
func (f *findFlags) asked(c *cobra.Command) (act find.Act, err error) {
	for kind, given := range map[find.Kind]bool{
		find.Requeue: f.requeue, find.Cancel: f.cancel, find.Purge: f.purge,
		find.Reschedule: c.Flags().Changed("reschedule-in") || c.Flags().Changed("reschedule-at"),
	} {
		if given {
			act.Kind = kind
		}
	}
	act.Stop = f.stop
	if f.delay != "" {
		var delay time.Duration
		delay, err = fields.ParseDuration("reschedule_in", f.delay)
		act.Delay = &delay
	} else if f.due != "" {
		act.Due, err = fields.ParseTime("reschedule_at", f.due)
	}
	return act, err
}

// check returns the error of flags that do not go with an act, or without one.
func (f *findFlags) check(act find.Act) error {
	switch {
	case f.stop && !f.cancel:
		return misused("stop", "unexpected flag --stop: it is for --cancel")
	case act.Kind == "" && f.dryRun:
		return misused("dry-run", "unexpected flag --dry-run: it is for an act, such as --requeue")
	case act.Kind == "" && f.all:
		return misused("all", "unexpected flag --all: it is for an act, such as --requeue; --limit says how many are shown")
	case act.Kind != "" && f.cursor != "" && !f.all && !f.dryRun:
		return misused("all", "--cursor goes on with an act: give --all, too")
	case act.Kind == "" && f.limit < 1:
		return fault.New("limit", "limit %d: use 1 or more", f.limit)
	}
	return nil
}

// each calls on with the messages of each page, until there were limit; 0: all. It returns where to
// go on, and the error of the search: an error that names shards which are away comes after all others.
func (s *findRun) each(ctx context.Context, limit int, on func([]notify.Info) error) (cursor string, err error) {
	cursor = s.cursor
	var missing error
	for n := 0; ; {
		most := find.MaxLimit
		if limit > 0 {
			most = min(limit-n, most)
		}
		page, err := s.session.service.Finder.Find(ctx, s.query, find.Options{Limit: most, Cursor: cursor})
		if missing, err = partly(err); err != nil {
			s.clear()
			return cursor, err
		}
		s.progress(page.Looked, page.Of)
		n, cursor = n+len(page.Messages), page.Cursor
		if len(page.Messages) > 0 {
			s.clear()
			if err := on(page.Messages); err != nil {
				return cursor, err
			}
		}
		if cursor == "" || n == limit {
			s.clear()
			return cursor, missing
		}
	}
}

// progress draws how far the search is, on a terminal.
func (s *findRun) progress(looked, of int64) {
	if s.drew = text.IsTerminal(s.err); s.drew {
		fmt.Fprintf(s.err, "\r\x1b[Klooked at %s of %s", text.Thousands(strconv.FormatInt(looked, 10)), text.Thousands(strconv.FormatInt(of, 10)))
	}
}

// clear removes the progress.
func (s *findRun) clear() {
	if s.drew {
		s.drew = false
		fmt.Fprint(s.err, "\r\x1b[K")
	}
}

// stopped tells how to go on with a search that was stopped, and returns its error.
func (s *findRun) stopped(cursor string, err error) error {
	if errors.Is(err, context.Canceled) && cursor != "" {
		return fmt.Errorf("stopped; go on with the same command and --cursor %s", cursor)
	}
	return err
}

// lines prints what is found as lines of JSON.
func (s *findRun) lines(ctx context.Context) error {
	cursor, err := s.each(ctx, s.limit, func(found []notify.Info) error {
		for _, i := range found {
			if err := s.printJSON(api.MessageOf(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && cursor != "" {
		terminal.Printf(s.err, "more: --cursor %s\n", cursor)
	}
	return s.stopped(cursor, err)
}

// table prints what is found.
func (s *findRun) table(ctx context.Context) error {
	var all []notify.Info
	cursor, err := s.each(ctx, s.limit, func(found []notify.Info) error {
		all = append(all, found...)
		return nil
	})
	missing, err := partly(err)
	if err != nil && len(all) == 0 {
		return s.stopped(cursor, err)
	}
	if len(all) == 0 {
		fmt.Fprintln(s.out, "no messages")
		return missing
	}
	now := s.now(ctx, s.session)
	rows := [][]string{{"TOPIC", "ID", "STATE", "TIME", "REASON OR BODY"}}
	for _, i := range all {
		at, about := timeAndText(i)
		rows = append(rows, []string{i.Topic, i.ID, i.State.String(), text.Relative(at, now), about})
	}
	s.printRows(rows, 0, 1, 4)
	if err == nil && cursor != "" {
		terminal.Printf(s.out, "\nmore: --cursor %s\n", cursor)
	}
	return cmp.Or(s.stopped(cursor, err), missing)
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

// export writes all that is found to a file.
func (s *findRun) export(ctx context.Context) error {
	f, err := newWhole(s.output)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	n := 0
	_, err = s.each(ctx, 0, func(found []notify.Info) error {
		n += len(found)
		for _, i := range found {
			if err := encoder.Encode(i.Line()); err != nil {
				return err
			}
		}
		return nil
	})
	missing, err := partly(err)
	if err = cmp.Or(err, buffered.Flush()); err != nil {
		f.giveUp()
		return fmt.Errorf("%w\n%s was not written", err, s.output)
	}
	if err := f.keep(); err != nil {
		return err
	}
	return s.printCount("exported", n, missing)
}

// actOnAll acts on all that match.
func (s *findRun) actOnAll(ctx context.Context) error {
	if s.dryRun {
		sum, err := s.perform(ctx, true)
		return s.printActed("matched", sum.Matched, sum, s.stopped(sum.Cursor, err))
	}
	if !s.all {
		if err := s.confirmAll(ctx); err != nil {
			return err
		}
	}
	sum, err := s.perform(ctx, false)
	err = s.stopped(sum.Cursor, err)
	if left := sum.Matched - sum.Done; left > 0 {
		s.complain(fmt.Sprintf("%s changed meanwhile, or lost the record, and stayed as it was", text.Plural(left, "message")))
	}
	return s.printActed(pastOf[s.act.Kind], sum.Done, sum, err)
}

// pastOf are the words for what acts did.
var pastOf = map[find.Kind]string{find.Requeue: "requeued", find.Cancel: "cancelled", find.Reschedule: "rescheduled", find.Purge: "purged"}

// printActed prints how many messages an act changed, or would, also if err ended it early.
func (a *app) printActed(what string, n int, sum find.Acted, err error) error {
	if !a.json || err != nil && n == 0 {
		return a.printCount(what, n, err)
	}
	missing, _ := api.MissingOf(err)
	return cmp.Or(err, a.printJSON(calls.ActedOf(sum, missing)))
}

// confirmAll counts what matches, and asks. Without a terminal it requires --all.
func (s *findRun) confirmAll(ctx context.Context) error {
	if !text.IsTerminal(s.in) {
		return wrong(misused("all", "%s is for all that match: give --all to mean it, or --dry-run to count them", s.act.Kind))
	}
	sum, err := s.perform(ctx, true)
	if err != nil {
		return s.stopped("", err)
	}
	if sum.Matched == 0 {
		return errors.New("no message matches that it is for")
	}
	nothing := "nothing was " + pastOf[s.act.Kind]
	verb := strings.ToUpper(string(s.act.Kind[:1])) + string(s.act.Kind[1:])
	return s.ask(ctx, fmt.Sprintf("%s %s messages?", verb, text.Thousands(strconv.Itoa(sum.Matched))), nothing)
}

// perform acts until all is done, and returns the sum.
func (s *findRun) perform(ctx context.Context, dryRun bool) (sum find.Acted, err error) {
	defer s.clear()
	var away error
	for sum.Cursor = s.cursor; ; {
		one, err := s.session.service.Finder.Act(ctx, s.query, s.act, find.Options{Cursor: sum.Cursor}, dryRun)
		missing, err := partly(err)
		away = cmp.Or(missing, away)
		sum.Matched, sum.Done = sum.Matched+one.Matched, sum.Done+one.Done
		if err == nil || one.Cursor != "" {
			sum.Cursor = one.Cursor
		}
		sum.Looked, sum.Of = one.Looked, one.Of
		s.progress(one.Looked, one.Of)
		if err != nil || sum.Cursor == "" {
			return sum, cmp.Or(err, away)
		}
	}
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
