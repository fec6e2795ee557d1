package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) archiveCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "archive",
		Short: "Search, requeue and remove what ended, in the SQL archive",
		Long: `The archive is a PostgreSQL database, BELLHOP_ARCHIVE_URL, in which bellhop serve
stores what died, expired, was dropped or was removed by housekeeping, and of topics
with the setting archive_acked what was acknowledged. These commands use the database
directly; only requeue and close use Redis.`,
		Example: `  bellhop archive search --topic 'order.>' --from 24h
  bellhop archive requeue --header Tenant=acme --from 24h`,
	}, "search, show, requeue, prune, erase or close",
		a.archiveSearchCommand(), a.archiveShowCommand(), a.archiveRequeueCommand(), a.archivePruneCommand(), a.archiveEraseCommand(), a.archiveCloseCommand())
}

// withArchive is withStore for a command that needs the archive, once check finds nothing
// wrong with its flags.
func (a *app) withArchive(c *cobra.Command, check func(now askTime) error, run func(ctx context.Context, s *session, r *archive.Archive, args []string) error) *cobra.Command {
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := check(func() (time.Time, error) { return s.store.Now(ctx) }); err != nil {
			return err
		}
		r, err := s.archive()
		if err != nil {
			return err
		}
		defer r.Close()
		return run(ctx, s, r, args)
	})
}

// archive opens the archive of the configuration.
func (s *session) archive() (*archive.Archive, error) {
	if s.config.ArchiveURL == "" {
		return nil, configError{errors.New("no archive is configured: set BELLHOP_ARCHIVE_URL, as for bellhop serve")}
	}
	return archive.New(s.store, s.config.Archive(s.log))
}

func (a *app) archiveSearchCommand() *cobra.Command {
	var f archiveFlags
	var l list
	var bodies bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "search",
		Short: "List what the archive holds, newest end first",
		Long: `List what the archive holds, newest end first, a page at a time. All flags that are
given must hold. A time is one of RFC 3339, or how long ago: --from 48h --to 24h is
the day before the last.`,
		Example: `  bellhop archive search --topic 'order.>' --state dead --from 24h
  bellhop archive search --reason 'no such user' --header Tenant=acme --json`,
		Args: takes(),
	})
	a.selecting(c, &f)
	l.flags(c, "rows to show", goOn)
	c.Flags().BoolVar(&bodies, "bodies", false, "with --json: print bodies and results, too")
	var q archive.Query
	check := func(now askTime) (err error) {
		q, err = f.query(now)
		return errors.Join(err, l.check())
	}
	return a.withArchive(c, check, func(ctx context.Context, _ *session, r *archive.Archive, _ []string) error {
		l.page = func(ctx context.Context, limit int, cursor string) (calls.Listing, error) {
			page, err := r.Search(ctx, q, limit, cursor, bodies)
			return calls.Rows(page), err
		}
		return printList(ctx, a, &l, func(rows []archive.Row) error { return a.printArchived(&l, rows) })
	})
}

// printArchived prints rows of the archive as a table.
func (a *app) printArchived(l *list, all []archive.Row) error {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "the archive holds nothing like that")
		return nil
	}
	rows := [][]string{{"ENDED", "TOPIC", "ID", "STATE", "ATTEMPTS", "REASON"}}
	for _, r := range all {
		rows = append(rows, []string{a.stamp(r.Ended), r.Topic, r.ID, r.State, strconv.Itoa(r.Attempts), text.Dash(store.Headline(r.Reason))})
	}
	a.printRows(rows, 1, 2, 5)
	a.printMore(l)
	return nil
}

func (a *app) archiveShowCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "show TOPIC ID",
		Short: "Show all that the archive holds of a message",
		Long: `Show all that the archive holds of a message, newest end first: each end of it is
a row, such as its death, and another one after it was requeued.`,
		Example: `  bellhop archive show order.timeout order-4711`,
		Args:    takes("TOPIC", "ID"),
	})
	check := func(askTime) error { return nil }
	return a.withArchive(c, check, func(ctx context.Context, s *session, r *archive.Archive, args []string) error {
		rows, err := r.Show(ctx, args[0], args[1], true)
		switch {
		case errors.Is(err, notify.ErrNotFound):
			return fmt.Errorf("the archive holds nothing of %s of %s", args[1], args[0])
		case err != nil:
			return err
		case a.json:
			return a.printJSON(calls.Rows(archive.Page{Rows: rows}))
		}
		now := a.now(ctx, s)
		for i, row := range rows {
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			if err := a.printArchivedRow(row, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// printArchivedRow prints a row, with its body and its result.
func (a *app) printArchivedRow(r archive.Row, now time.Time) error {
	err := text.Table(a.out, func(w io.Writer) {
		row := rowsTo(w)
		row("topic", r.Topic)
		row("id", r.ID)
		row("state", r.State)
		row("ended", a.when(r.Ended, now))
		rowOfLines(row, "reason", r.Reason)
		row("attempts used", strconv.Itoa(r.Attempts))
		row("first due", a.when(r.FirstDue, now))
		row("published", a.when(r.Published, now))
		writeAsked(row, r.Record)
		row("fault", r.Fault)
		row("body", text.Plural(r.Size, "byte"))
		if r.Result != nil {
			row("result", text.Plural(len(r.Result), "byte"))
		}
	})
	if err != nil {
		return err
	}
	if len(r.History) > 0 {
		fmt.Fprintln(a.out)
		a.printRows(a.historyRows(r.History, now), 2, 3)
	}
	terminal.Printf(a.out, "\n%s\n", text.OneLine(r.Body))
	if r.Result != nil {
		terminal.Printf(a.out, "\nresult:\n%s\n", text.OneLine(r.Result))
	}
	return nil
}
