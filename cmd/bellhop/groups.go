package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) groupsCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "groups TOPIC [NAME]",
		Short: "List the groups of a topic, or say what one waits for",
		Long: `List the groups of a topic, the latest first: how many messages of each are left, are or
were dead, and were acknowledged, dropped or cancelled, and the message that waits for
it. Of one that is held only dead letters are left: requeue, purge or cancel these. Of a group by
name, list some of the messages that it waits for.`,
		Example: `  bellhop groups row.import
  bellhop groups row.import import-7
  bellhop groups row.import --json | jq '.groups[] | select(.state == "held")'
  bellhop groups forget row.import import-7 --yes`,
		Args: takes("TOPIC", "[NAME]"),
	})
	addParams(c, calls.Named("listGroups"), "limit", "cursor")
	c.AddCommand(a.groupsForgetCommand())
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if len(args) == 2 {
			return a.showGroup(ctx, s, c, args)
		}
		params, err := paramsOf(c, calls.Named("listGroups"), args)
		if err != nil {
			return wrong(err)
		}
		page, err := ask[calls.Groups](ctx, s, "listGroups", params)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(page)
		case len(page.Groups) == 0 && page.Cursor == "":
			fmt.Fprintln(a.out, "no group")
			return nil
		}
		a.printRows(groupRows(page.Groups, a.now(ctx, s)), 0, 7)
		a.printMore(&list{cursor: page.Cursor})
		return nil
	})
}

// showGroup prints a group, and what it waits for.
func (a *app) showGroup(ctx context.Context, s *session, c *cobra.Command, args []string) error {
	for _, flag := range []string{"limit", "cursor"} {
		if c.Flags().Changed(flag) {
			return wrong(misused(flag, "--%s is for the list of groups; leave it out, or the name of the group", flag))
		}
	}
	g, err := ask[calls.WaitingGroup](ctx, s, "getGroup", map[string]string{"topic": args[0], "name": args[1]})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(g)
	}
	now := a.now(ctx, s)
	a.printRows(groupRows([]calls.Group{g.Group}, now), 0, 7)
	terminal.Printf(a.out, "\n%s\n", g.WaitsFor(func(t time.Time) string { return text.Distance(t, now) }))
	return nil
}

// groupRows returns the table of groups.
func groupRows(groups []calls.Group, now time.Time) [][]string {
	rows := [][]string{{"NAME", "STATE", "LEFT", "DEAD", "ACKED", "DROPPED", "CANCELLED", "CALLBACK", "SINCE"}}
	for _, g := range groups {
		row := []string{g.Name, string(g.State)}
		for _, n := range []int64{g.Left, g.Dead, g.Acked, g.Dropped, g.Cancelled} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		since := timeOf(g.Opened)
		if g.Complete != nil {
			since = *g.Complete
		}
		rows = append(rows, append(row, text.Dash(g.Callback), text.Relative(since, now)))
	}
	return rows
}

func (a *app) groupsForgetCommand() *cobra.Command {
	var yes bool
	call := calls.Named("forgetGroup")
	c := a.jsonFlag(&cobra.Command{
		Use:   "forget TOPIC NAME",
		Short: "Forget a group, and cancel the message that waits for it",
		Long: `Forget a group, and cancel the message that waits for it. The messages of the group stay
as they are, in no group. Cancel them by bellhop find --cancel before, while they are in it.`,
		Example: `  bellhop groups forget row.import import-7 --yes`,
		Args:    takes(arguments(call)...),
	})
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := a.confirm(ctx, "Forget the group, and cancel the message that waits for it?", "what waits for the group is cancelled", yes); err != nil {
			return err
		}
		params, err := paramsOf(c, call, args)
		if err != nil {
			return wrong(err)
		}
		gone, err := ask[calls.ForgottenGroup](ctx, s, call.Name, params)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(gone)
		}
		terminal.Printf(a.out, "forgot %s of %s: %s left it", args[1], args[0], text.Plural(gone.Left, "message"))
		if gone.Cancelled != "" {
			terminal.Printf(a.out, ", and %s is cancelled", gone.Cancelled)
		}
		fmt.Fprintln(a.out)
		return nil
	})
}
