package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store/record"
)

func (a *app) deadCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "dead",
		Short: "List, count, requeue, purge and export dead letters",
		Long: `Dead letters are messages that are out of attempts, expired or refused for good.
They are kept with the reason until they are requeued or purged, or exceed the
number or the age of BELLHOP_DEAD_KEEP.`,
		Example: `  bellhop dead list order.timeout
  bellhop dead requeue order.timeout --all`,
	}, "list, requeue, purge or export",
		a.deadListCommand(), a.deadRequeueCommand(), a.deadPurgeCommand(), a.deadExportCommand())
}

func (a *app) deadListCommand() *cobra.Command {
	var l list
	c := a.jsonFlag(&cobra.Command{
		Use:   "list [TOPIC]",
		Short: "List dead letters, oldest first, or count them by topic and reason",
		Long: `List the dead letters of a topic, oldest death first. Without TOPIC, count those of
all topics by topic and reason, most frequent first. Reasons that differ only in
numbers or names, such as 4711 or order-4711, count as one, which shows # for them.`,
		Example: `  bellhop dead list
  bellhop dead list order.timeout --limit 100`,
		Args: takes("[TOPIC]"),
	})
	l.flags(c, "messages, or reasons, to show", "with TOPIC: "+goOn)
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		switch {
		case len(args) > 0:
			l.asks(s, "listDead", map[string]string{"topic": args[0]})
			return printList(ctx, a, &l, func(all []notify.Info) error { return a.printMessages(&l, all, a.now(ctx, s)) })
		case l.cursor != "":
			return wrong(misused("cursor", "unexpected flag --cursor: it is for the list of a TOPIC"))
		}
		if err := l.check(); err != nil {
			return err
		}
		return a.countDead(ctx, s, l.limit)
	})
}

// countDead prints the numbers of dead letters by topic and reason.
func (a *app) countDead(ctx context.Context, s *session, limit int) error {
	bar := a.progress("counting", -1)
	all, err := reasons.Count(ctx, s.store, func(total int) { _ = bar.Set(total) }) // it only draws
	_ = bar.Finish()
	missing, err := partly(err)
	if err != nil {
		return err
	}
	shown := all[:min(len(all), limit)]
	if a.json {
		return cmp.Or(a.printJSON(shown), missing)
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no dead letters")
		return missing
	}
	rows := [][]string{{"DEAD", "TOPIC", "REASON"}}
	for _, r := range shown {
		rows = append(rows, []string{strconv.FormatInt(r.Dead, 10), r.Topic, r.Reason})
	}
	a.printRows(rows, 1, 2)
	fmt.Fprintf(a.out, "\n%s\n", sumOfDead(all, len(shown)))
	return missing
}

// sumOfDead describes how many dead letters there are, and how many reasons are not shown.
func sumOfDead(all []reasons.Reason, shown int) string {
	total, topics := int64(0), make(map[string]bool)
	for _, r := range all {
		total += r.Dead
		topics[r.Topic] = true
	}
	sum := fmt.Sprintf("%s of %s", text.Plural(total, "dead letter"), text.Plural(len(topics), "topic"))
	if more := len(all) - shown; more > 0 {
		sum += fmt.Sprintf("; %s more: --limit %d", text.Plural(more, "reason"), len(all))
	}
	return sum
}

func (a *app) deadRequeueCommand() *cobra.Command {
	return a.deadActCommand(find.Requeue, &cobra.Command{
		Use:   "requeue TOPIC [ID...]",
		Short: "Make dead letters ready again",
		Long: `Make dead letters ready again, with all their attempts. Ids that are not dead are
reported, and the exit code is 1; the others are requeued all the same. Without ids
it is bellhop find "topic:TOPIC state:dead" --requeue.`,
		Example: `  bellhop dead requeue order.timeout order-4711
  bellhop dead requeue order.timeout --all`,
	})
}

func (a *app) deadPurgeCommand() *cobra.Command {
	return a.deadActCommand(find.Purge, &cobra.Command{
		Use:   "purge TOPIC [ID...]",
		Short: "Remove dead letters for good",
		Long: `Remove dead letters for good. Ids that are not dead are reported, and the exit code
is 1; the others are purged all the same. Without ids it is
bellhop find "topic:TOPIC state:dead" --purge.`,
		Example: `  bellhop dead purge order.timeout order-4711
  bellhop dead purge order.timeout --all`,
	})
}

// deadActCommand completes a command that acts on dead letters of a topic: on some ids, or as find does.
func (a *app) deadActCommand(kind find.Kind, c *cobra.Command) *cobra.Command {
	var f findFlags
	a.jsonFlag(c)
	f.addTo(c.Flags())
	c.Flags().StringVar(&f.cursor, "cursor", "", goOn)
	c.Args = f.deadArgs
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		question := deadOf(args[0])
		if len(args) == 1 {
			return a.actOnAll(ctx, s, c, &f, kind, question)
		}
		sum, err := a.actOnDead(ctx, s, kind, question, args[0], args[1:])
		return a.printActed(acts[kind].past, sum.Done, sum, err)
	})
}

// actOnDead acts on dead letters of some ids. The error says of each id that is not dead or cannot be changed why.
func (a *app) actOnDead(ctx context.Context, s *session, kind find.Kind, question, topic string, ids []string) (sum calls.Acted, err error) {
	var faults []error
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		one, err := a.act(ctx, s, map[string]string{"act": string(kind), "q": question + " id:" + id, "all": "true"})
		if err == nil && one.Done == 0 {
			err = notDead(ctx, s, topic, id)
		}
		if faults = append(faults, err); notify.Retryable(err) || errors.Is(err, context.Canceled) {
			break
		}
		sum.Matched, sum.Done = sum.Matched+one.Done, sum.Done+one.Done
	}
	sum.Looked.Looked, sum.Of = int64(len(ids)), int64(len(ids))
	return sum, errors.Join(faults...)
}

// notDead returns why an id was not changed.
func notDead(ctx context.Context, s *session, topic, id string) error {
	info, err := s.inspector.Inspect(ctx, topic, id)
	switch {
	case errors.Is(err, notify.ErrNotFound):
		return fmt.Errorf("%s has no dead letter %s: see 'bellhop dead list %s'", topic, id, topic)
	case err != nil:
		return err
	case info.State != notify.Dead:
		return fmt.Errorf("%s of %s is not dead but %s: see 'bellhop inspect %s %s'", id, topic, info.State, topic, id)
	}
	return fmt.Errorf("%s of %s has lost its record, so it cannot be requeued: remove it with 'bellhop dead purge %s %s'", id, topic, topic, id)
}

func (a *app) deadExportCommand() *cobra.Command {
	var output string
	c := a.jsonFlag(&cobra.Command{
		Use:   "export TOPIC",
		Short: "Write dead letters as lines of JSON",
		Long: `Write dead letters as lines of JSON, oldest death first, to standard output or a
file. They stay in Redis. After a purge, bellhop publish --file publishes these
lines again.`,
		Example: `  bellhop dead export order.timeout --output dead.jsonl`,
		Args:    takes("TOPIC"),
	})
	c.Flags().StringVar(&output, "output", "", "write to this "+outputFile)
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := record.CheckAnyTopic(args[0]); err != nil {
			return err
		}
		var all list
		all.asks(s, "find", map[string]string{"q": deadOf(args[0])})
		return a.exportList(ctx, &all, output)
	})
}

// deadOf returns the question for all dead letters of a topic.
func deadOf(topic string) string { return "state:dead topic:" + topic }

// deadArgs requires a topic. Ids and flags for all of its dead letters exclude each other.
func (f *findFlags) deadArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return misused("topic", "TOPIC is missing")
	case len(args) > 1 && (f.all || f.dryRun || f.cursor != ""):
		return misused("id", "unexpected argument %q: --all, --dry-run and --cursor are for all dead letters of the topic; leave out the ids, or these", args[1])
	}
	return cmp.Or(record.CheckAnyTopic(args[0]), checkIDs(args[1:]))
}

// checkIDs returns a Fault for each text that is no id.
func checkIDs(ids []string) error {
	var faults []error
	for _, id := range ids {
		faults = append(faults, record.CheckID(id))
	}
	return errors.Join(faults...)
}
