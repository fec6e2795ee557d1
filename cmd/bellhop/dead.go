package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store/fault"
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
	var limit int
	var cursor string
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
	c.Flags().IntVar(&limit, "limit", 50, "messages on a page, or reasons to show")
	c.Flags().StringVar(&cursor, "cursor", "", "with TOPIC: where the page begins, as the page before printed")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if len(args) == 0 && cursor != "" {
			return wrong(misused("cursor", "unexpected flag --cursor: it is for the list of a TOPIC"))
		}
		if len(args) == 0 {
			return a.countDead(ctx, s, limit)
		}
		page, err := list(ctx, s.inState(notify.Dead), args[0], limit, cursor)
		if err != nil {
			return err
		}
		return a.printPage(page, a.now(ctx, s))
	})
}

// countDead prints the numbers of dead letters by topic and reason.
func (a *app) countDead(ctx context.Context, s *session, limit int) error {
	if limit < 1 {
		return fault.New("limit", "limit %d: use 1 or more", limit)
	}
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
	return a.deadActCommand(find.Requeue, (*notify.Inspector).Requeue, &cobra.Command{
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
	return a.deadActCommand(find.Purge, (*notify.Inspector).Purge, &cobra.Command{
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
func (a *app) deadActCommand(kind find.Kind, one func(*notify.Inspector, context.Context, string, ...string) (int, error), c *cobra.Command) *cobra.Command {
	var f findFlags
	a.jsonFlag(c)
	f.addTo(c.Flags())
	c.Args = f.deadArgs
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return a.runFind(ctx, []string{"topic:" + args[0], "state:dead"}, &f, find.Act{Kind: kind})
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		defer s.store.Close()
		n, err := eachDead(ctx, s, one, args[0], args[1:])
		looked := int64(len(args) - 1)
		return a.printActed(pastOf[kind], n, find.Acted{Matched: n, Done: n, Looked: looked, Of: looked}, err)
	})
}

// eachDead calls do for each id. It returns how many dead letters do changed, and
// an error for each id that is not dead or cannot be changed.
func eachDead(ctx context.Context, s *session, do func(*notify.Inspector, context.Context, string, ...string) (int, error), topic string, ids []string) (n int, err error) {
	var faults []error
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		done, err := do(s.inspector, ctx, topic, id)
		if err == nil && done == 0 {
			err = notDead(ctx, s, topic, id)
		}
		if notify.Retryable(err) || errors.Is(err, context.Canceled) {
			return n, errors.Join(append(faults, err)...)
		}
		n += done
		faults = append(faults, err)
	}
	return n, errors.Join(faults...)
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
	c.Flags().StringVar(&output, "output", "", "write to this file, which only its owner can read; it is replaced when all is written")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if output == "" {
			_, err := a.export(ctx, s, args[0], terminal.JSON(a.out), nil)
			return err
		}
		return a.exportDead(ctx, s, args[0], output)
	})
}

// exportDead writes the dead letters of a topic to a file, which stays as it was if that fails, or to a pipe or a device.
func (a *app) exportDead(ctx context.Context, s *session, topic, path string) error {
	if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() && !about.IsDir() {
		return a.exportInto(ctx, s, topic, path)
	}
	f, err := newWhole(path)
	if err != nil {
		return err
	}
	n := 0
	on, done, err := a.deadProgress(ctx, s, "exporting", topic)
	if err == nil {
		n, err = a.export(ctx, s, topic, f, on)
		done()
	}
	if err != nil {
		f.giveUp()
		return fmt.Errorf("%w\n%s was not written", err, path)
	}
	return a.printCount("exported", n, f.keep())
}

// exportInto writes the dead letters of a topic to a pipe, once it has a reader, or to a device; then everything else goes to stderr.
func (a *app) exportInto(ctx context.Context, s *session, topic, path string) error {
	type opened struct {
		*os.File
		err error
	}
	came := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		came <- opened{f, err}
	}()
	a.out = a.err
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case f := <-came:
		if f.err != nil {
			return f.err
		}
		n, err := a.export(ctx, s, topic, terminal.JSON(f), nil)
		return a.printCount("exported", n, cmp.Or(err, f.Close()))
	}
}

// export writes the dead letters of a topic.
func (a *app) export(ctx context.Context, s *session, topic string, w io.Writer, on func(int)) (int, error) {
	buffered := bufio.NewWriter(w)
	n, err := s.inspector.ExportDead(ctx, topic, buffered, on)
	if bad := buffered.Flush(); err == nil {
		err = bad
	}
	return n, err
}

// deadArgs requires a topic. Ids and flags for all of its dead letters exclude each other.
func (f *findFlags) deadArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return misused("topic", "TOPIC is missing")
	case len(args) > 1 && (f.all || f.dryRun || f.cursor != ""):
		return misused("id", "unexpected argument %q: --all, --dry-run and --cursor are for all dead letters of the topic; leave out the ids, or these", args[1])
	}
	return record.CheckAnyTopic(args[0])
}

// deadProgress returns functions that show how many of a topic's dead letters are done, and that end the display.
func (a *app) deadProgress(ctx context.Context, s *session, what, topic string) (on func(int), done func(), err error) {
	counts, err := s.inspector.Count(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	bar := a.progress(what, max(counts[0].Dead, 1))
	on = func(total int) { _ = bar.Set(total) } // it only draws
	return on, func() { _ = bar.Finish() }, nil
}
