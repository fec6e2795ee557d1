package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) outboxRefusedCommand() *cobra.Command {
	var l list
	c := a.jsonFlag(&cobra.Command{
		Use:   "refused",
		Short: "List what the outboxes hold that cannot be published",
		Long: `List what the outboxes of BELLHOP_OUTBOX_URL hold that cannot be published as it is,
in the order of the calls, with the reason. It stays there, and holds nothing back,
until it is retried or purged.`,
		Example: `  bellhop outbox refused
  bellhop outbox refused --json | jq '.refused[] | {seq, topic, id, reason}'`,
		Args: takes(),
	})
	l.flags(c, "messages to show", goOn)
	addParams(c, calls.Named("listRefused"), "database")
	return a.withOutboxes(c, func(ctx context.Context, s *session, _ []string) error {
		if err := l.check(); err != nil {
			return err
		}
		params, err := paramsOf(c, calls.Named("listRefused"), nil)
		if err != nil {
			return wrong(err)
		}
		all, err := listRefused(ctx, s, params, l.limit)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(all)
		}
		l.cursor = all.Cursor
		a.printRefused(&l, all.Refused, len(s.service.Outboxes) > 1)
		return nil
	})
}

// listRefused returns up to limit of what cannot be published.
func listRefused(ctx context.Context, s *session, params map[string]string, limit int) (calls.RefusedRows, error) {
	all := calls.RefusedRows{Refused: []calls.RefusedRow{}}
	for {
		params["limit"] = strconv.Itoa(min(limit-len(all.Refused), mostListed))
		page, err := ask[calls.RefusedRows](ctx, s, "listRefused", params)
		if err != nil {
			return all, err
		}
		all.Refused, all.Cursor = append(all.Refused, page.Refused...), page.Cursor
		if page.Cursor == "" || len(all.Refused) == limit {
			return all, nil
		}
		params["cursor"] = page.Cursor
	}
}

// printRefused prints what cannot be published as a table, of several outboxes with their databases.
func (a *app) printRefused(l *list, all []calls.RefusedRow, several bool) {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "nothing is refused")
		return
	}
	rows, shrinkable := [][]string{{"SEQ", "CALLED", "TOPIC", "ID", "REASON"}}, []int{2, 3, 4}
	for _, r := range all {
		rows = append(rows, []string{strconv.FormatInt(r.Seq, 10), a.stamp(r.Called), r.Topic, r.ID, store.Headline(r.Reason)})
	}
	if several {
		rows[0], shrinkable = append(rows[0], "DATABASE"), append(shrinkable, 5)
		for i, r := range all {
			rows[i+1] = append(rows[i+1], r.Database)
		}
	}
	a.printRows(rows, shrinkable...)
	a.printMore(l)
}

func (a *app) outboxRetryCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "retry [SEQ...]",
		Short: "Have refused messages of an outbox relayed again",
		Long: `Have refused messages of an outbox relayed again, behind all others: those of some
rows, by their numbers in bellhop outbox refused, or --all. If one of these rows is
not refused, nothing is changed. What is wrong still is refused again.`,
		Example: `  bellhop outbox retry 17 18
  bellhop outbox retry --all`,
		Args: takesRows("all"),
	})
	addParams(c, calls.Named("retryRefused"), "all", "database")
	return a.withOutboxes(c, func(ctx context.Context, s *session, args []string) error {
		return a.changeOutbox(ctx, s, c, "retryRefused", "retried", args)
	})
}

func (a *app) outboxPurgeCommand() *cobra.Command {
	var yes bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "purge [SEQ...]",
		Short: "Remove refused messages from an outbox, or those that wait",
		Long: `Remove refused messages from an outbox for good: those of some rows, by their numbers
in bellhop outbox refused, or --all. If one of these rows is not refused, nothing is
removed.

With --waiting --before TIME it removes what waits and was called before then, of all
outboxes unless --database names one. That is for a database that was restored from a
backup, so that what was published once does not come again: stop the daemons first,
since what is being relayed is published all the same.`,
		Example: `  bellhop outbox purge 17 18 --yes
  bellhop outbox purge --all --yes
  bellhop outbox purge --waiting --before 2030-01-02T15:04:05Z --yes`,
		Args: takesRows("all", "waiting"),
	})
	addParams(c, calls.Named("purgeRefused"), "all", "waiting", "before", "database")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.withOutboxes(c, func(ctx context.Context, s *session, args []string) error {
		if err := a.confirm(ctx, "Remove these messages from the outbox for good?", "what is removed from the outbox cannot be brought back", yes); err != nil {
			return err
		}
		return a.changeOutbox(ctx, s, c, "purgeRefused", "purged", args)
	})
}

// takesRows requires numbers of rows, or else one of some flags.
func takesRows(flags ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		given, names := 0, "--"+strings.Join(flags, " or --")
		if len(args) > 0 {
			given++
		}
		for _, flag := range flags {
			if on, _ := c.Flags().GetBool(flag); on { // fails for no flag
				given++
			}
		}
		switch {
		case given == 0:
			return misused("ids", "SEQ is missing: give numbers of rows, as bellhop outbox refused lists them, or %s", names)
		case given > 1:
			return misused("ids", "give one of SEQ, %s", strings.ReplaceAll(names, " or ", ", "))
		}
		return nil
	}
}

// changeOutbox makes a call that changes rows until all are done, and prints how many, also if an error ended it early.
func (a *app) changeOutbox(ctx context.Context, s *session, c *cobra.Command, call, done string, seqs []string) error {
	params, err := paramsOf(c, calls.Named(call), nil)
	if err != nil {
		return wrong(err)
	}
	params["ids"] = strings.Join(seqs, ",")
	sum, err := changeAll(ctx, s, call, params)
	switch {
	case err != nil && sum == 0:
		return err
	case a.json:
		return errors.Join(a.printJSON(calls.OutboxChange{Count: sum}), err)
	}
	terminal.Printf(a.out, "%s %d\n", done, sum)
	return err
}

// changeAll repeats a call that changes rows until all are done, and returns how many.
func changeAll(ctx context.Context, s *session, call string, params map[string]string) (sum int, err error) {
	for {
		one, err := ask[calls.OutboxChange](ctx, s, call, params)
		sum += one.Count
		if err != nil || one.Cursor == "" {
			return sum, err
		}
		params["cursor"] = one.Cursor
	}
}
