package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/receivers"
)

func (a *app) listenersCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "listeners",
		Short: "List the named listeners, those of a broadcast, or remove one",
		Long: `List the named listeners, which bellhop listen --name creates: the pattern of each,
where it began, how many broadcasts its processes have leased, on how many topics it
is behind, who listens under it now and holds how many of the leased ones, and when
the oldest broadcast was sent that it has not received yet. The log keeps broadcasts as long as
BELLHOP_BROADCAST_KEEP says: those "at risk" are removed next.`,
		Example: `  bellhop listeners
  bellhop listeners --json | jq '.listeners[] | select(.active | not)'
  bellhop listeners --json | jq '.listeners[] | {name, held_by}'
  bellhop listeners of prices sale-7
  bellhop listeners remove billing`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: use remove NAME, of TOPIC ID, or nothing for a list", args[0])
			}
			return nil
		},
	})
	c.AddCommand(a.listenersRemoveCommand(), a.listenersOfCommand())
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		all := calls.Listeners{Listeners: []notify.ListenerInfo{}}
		params := map[string]string{"limit": "500"}
		for more := true; more; more = params["cursor"] != "" {
			page, err := ask[calls.Listeners](ctx, s, "listeners", params)
			if err != nil {
				return err
			}
			all.Listeners, params["cursor"], all.Missing = append(all.Listeners, page.Listeners...), page.Cursor, page.Missing
		}
		switch {
		case a.json:
			return cmp.Or(a.printJSON(all), all.Missing.Err())
		case len(all.Listeners) == 0:
			fmt.Fprintln(a.out, "no named listener")
		default:
			a.printRows(listenerRows(all.Listeners, a.now(ctx, s)), 0, 1, 2, 5, 6)
		}
		return all.Missing.Err()
	})
}

// listenerRows returns the table of named listeners.
func listenerRows(names []notify.ListenerInfo, now time.Time) [][]string {
	rows := [][]string{{"NAME", "PATTERN", "FROM", "LEASED", "BEHIND", "LISTENS", "OLDEST"}}
	for _, n := range names {
		rows = append(rows, []string{n.Name, n.Pattern, n.From, fmt.Sprint(n.Held), fmt.Sprint(n.Behind), calls.WhoListens(n), oldest(n, now)})
	}
	return rows
}

// oldest returns when the oldest broadcast was sent that a name has not received yet, and whether some are lost or at risk.
func oldest(n notify.ListenerInfo, now time.Time) string {
	at := text.Relative(n.Oldest, now)
	switch {
	case n.HasGap:
		at += ", others are gone"
	case n.AtRisk:
		at += ", at risk"
	}
	return at
}

func (a *app) listenersRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a named listener",
		Long: `Forget a named listener, its position and its leases. Processes that listen under
the name end with an error.`,
		Example: `  bellhop listeners remove billing`,
		Args:    takes("NAME"),

		ValidArgsFunction: a.first(a.listenersLike),
	}
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := s.inspector.RemoveListener(ctx, args[0]); err != nil {
			return err
		}
		terminal.Printf(a.out, "removed %s\n", args[0])
		return nil
	})
}

func (a *app) listenersOfCommand() *cobra.Command {
	return callCommand(a, "receivers", &cobra.Command{
		Use:   "of TOPIC ID",
		Short: "List how far the named listeners are with a broadcast",
		Long: `List the named listeners that get a broadcast, and how far each is with it: waiting, it
lacks the broadcast still; leased, a process of it has the broadcast; done, it was handled,
or given up. A broadcast is found while it waits, and while the log of its topic keeps it.`,
		Example: `  bellhop listeners of prices sale-7
  bellhop listeners of prices sale-7 --json | jq .listeners`,
	}, func(ctx context.Context, s *session, _ []string, b receivers.Report) error {
		now := a.now(ctx, s)
		if b.State == receivers.Scheduled {
			terminal.Printf(a.out, "scheduled, due %s\n", text.Relative(b.Due, now))
			return nil
		}
		terminal.Printf(a.out, "sent %s\n", text.Relative(b.Sent, now))
		rows := [][]string{{"NAME", "STATE", "WORKER", "UNTIL"}}
		for _, l := range b.Listeners {
			rows = append(rows, []string{l.Name, l.State, cmp.Or(l.Worker, "-"), text.Relative(l.Until, now)})
		}
		if len(b.Listeners) > 0 {
			a.printRows(rows, 0, 1, 2, 3)
		}
		return nil
	})
}
