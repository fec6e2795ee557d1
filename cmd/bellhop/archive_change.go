package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) archiveRequeueCommand() *cobra.Command {
	var f archiveFlags
	var all bool
	var l list
	c := a.jsonFlag(&cobra.Command{
		Use:   "requeue",
		Short: "Publish what the archive holds again, as due now",
		Long: `Publish messages of the archive again, under their ids and as due now, newest end
first. All flags that are given must hold; without any, --all is needed. The rows
stay in the archive. A message that is still a dead letter is requeued as that. One
whose id is in use is refused and counted; then the exit code is 1.

If it is interrupted, it prints the --cursor to go on with: called again without it,
it would also repeat those that were handled since.`,
		Example: `  bellhop archive requeue --header Tenant=acme --state dead --from 48h --to 24h
  bellhop archive requeue --topic order.timeout --id order-4711`,
		Args: takes(),
	})
	a.selecting(c, &f)
	c.Flags().BoolVar(&all, "all", false, "all that the archive holds")
	c.Flags().IntVar(&l.limit, "limit", 0, "requeue at most so many (default: no limit)")
	c.Flags().StringVar(&l.cursor, "cursor", "", goOn)
	var q archive.Query
	check := func(now askTime) (err error) {
		q, err = f.chosen(c, all, now)
		if c.Flags().Changed("limit") {
			err = errors.Join(err, l.check())
		}
		return err
	}
	return a.withArchive(c, check, func(ctx context.Context, _ *session, r *archive.Archive, _ []string) error {
		done, err := a.inSteps("requeueing", archive.Change{Cursor: l.cursor}, l.limit, func(most int, cursor string) (archive.Change, error) {
			return r.Requeue(ctx, q, most, cursor, true)
		})
		return a.printRequeued(done, err)
	})
}

// chosen is query for a command that changes all that is selected: it requires --all if
// nothing is.
func (f *archiveFlags) chosen(c *cobra.Command, all bool, now askTime) (archive.Query, error) {
	q, err := f.query(now)
	switch {
	case err != nil:
		return q, err
	case all && f.selects():
		return q, wrong(misused("all", "give --all or flags that select, not both"))
	case !all && !f.selects():
		return q, wrong(misused("all", "nothing is selected: give flags such as --topic, or --all to %s all that the archive holds", c.Name()))
	}
	return q, nil
}

// inSteps repeats a change until all is done, or limit rows are; 0 is no limit. It returns
// the sum, and the cursor of what is left.
func (a *app) inSteps(what string, sum archive.Change, limit int, change func(most int, cursor string) (archive.Change, error)) (archive.Change, error) {
	bar := a.progress(what, -1)
	defer func() { _ = bar.Finish() }() // it only draws
	for {
		most := mostListed
		if limit > 0 {
			most = min(most, limit-sum.Done-sum.Refused)
		}
		step, err := change(most, sum.Cursor)
		sum.Done, sum.Refused = sum.Done+step.Done, sum.Refused+step.Refused
		if err == nil || step.Cursor != "" {
			sum.Cursor = step.Cursor
		}
		_ = bar.Set(sum.Done + sum.Refused)
		if err != nil || sum.Cursor == "" || limit > 0 && sum.Done+sum.Refused >= limit {
			return sum, err
		}
	}
}

// printRequeued prints how many messages were requeued, and how to go on if some are left.
func (a *app) printRequeued(sum archive.Change, err error) error {
	err = a.printChange(sum, err, func() {
		terminal.Printf(a.out, "requeued %d, refused %d\n", sum.Done, sum.Refused)
		if sum.Cursor != "" {
			terminal.Printf(a.out, "more: --cursor %s\n", sum.Cursor)
		}
	})
	if err == nil && sum.Refused > 0 {
		err = errReported
	}
	return err
}

// printRemoved prints how many rows were removed.
func (a *app) printRemoved(what string, sum archive.Change, err error) error {
	return a.printChange(sum, err, func() { terminal.Printf(a.out, "%s %d\n", what, sum.Done) })
}

// printChange prints a change as JSON, or as text prints it, also if err ended it early.
func (a *app) printChange(sum archive.Change, err error, text func()) error {
	switch {
	case err != nil && sum.Done+sum.Refused == 0:
	case !a.json:
		text()
	default:
		if bad := a.printJSON(calls.ArchiveChangeOf(sum)); err == nil {
			err = bad
		}
	}
	return err
}

func (a *app) archivePruneCommand() *cobra.Command {
	var before string
	var yes bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "prune",
		Short: "Remove what ended before a time from the archive",
		Long: `Remove what ended before a time from the archive for good. Whole months are removed
at once. It may be interrupted and called again.`,
		Example: `  bellhop archive prune --before 8760h
  bellhop archive prune --before 2025-01-01T00:00:00Z --yes`,
		Args: takes(),
	})
	c.Flags().StringVar(&before, "before", "", "a time of RFC 3339, or how long ago, such as 8760h")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	var at time.Time
	check := func(now askTime) (err error) {
		if before == "" {
			return wrong(misused("before", "--before is missing: give a time of RFC 3339, or how long ago, such as 8760h"))
		}
		at, err = ago("before", before, now)
		return err
	}
	return a.withArchive(c, check, func(ctx context.Context, _ *session, r *archive.Archive, _ []string) error {
		if err := a.confirmArchive(ctx, "Remove what ended before "+a.stamp(at)+" from the archive for good?", yes); err != nil {
			return err
		}
		sum, err := a.inSteps("pruning", archive.Change{}, 0, func(most int, _ string) (archive.Change, error) {
			return r.Prune(ctx, at, most)
		})
		return a.printRemoved("pruned", sum, err)
	})
}

func (a *app) archiveEraseCommand() *cobra.Command {
	var f archiveFlags
	var all, yes bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "erase",
		Short: "Remove rows from the archive, such as those of one person",
		Long: `Remove rows from the archive for good, such as those of a person who asks to be
forgotten. All flags that are given must hold; without any, --all is needed. It may be
interrupted and called again. Messages in Redis stay: see bellhop cancel and bellhop
dead purge.`,
		Example: `  bellhop archive erase --header User=4711 --yes
  bellhop archive erase --topic signup --id user-4711`,
		Args: takes(),
	})
	a.selecting(c, &f)
	c.Flags().BoolVar(&all, "all", false, "all that the archive holds")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	var q archive.Query
	check := func(now askTime) (err error) {
		q, err = f.chosen(c, all, now)
		return err
	}
	return a.withArchive(c, check, func(ctx context.Context, _ *session, r *archive.Archive, _ []string) error {
		what := "what matches"
		if all {
			what = "everything"
		}
		if err := a.confirmArchive(ctx, fmt.Sprintf("Remove %s from the archive for good?", what), yes); err != nil {
			return err
		}
		sum, err := a.inSteps("erasing", archive.Change{}, 0, func(most int, _ string) (archive.Change, error) {
			return r.Erase(ctx, q, most)
		})
		return a.printRemoved("erased", sum, err)
	})
}

// confirmArchive asks before rows are removed.
func (a *app) confirmArchive(ctx context.Context, question string, yes bool) error {
	return a.confirm(ctx, question, "what is removed from the archive cannot be brought back", yes)
}
