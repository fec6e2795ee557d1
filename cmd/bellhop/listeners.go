package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
)

func (a *app) listenersCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "listeners",
		Short: "List the named listeners, or remove one",
		Long: `List the named listeners, which bellhop listen --name creates: the pattern of each,
where it began, how many broadcasts its processes have leased, on how many topics it
is behind, who listens under it now and holds how many of the leased ones, and when
the oldest broadcast was sent that it has not received yet. The log keeps broadcasts as long as
BELLHOP_BROADCAST_KEEP says: those "at risk" are removed next.`,
		Example: `  bellhop listeners
  bellhop listeners --json | jq '.[] | select(.active | not)'
  bellhop listeners --json | jq '.[] | {name, held_by}'
  bellhop listeners remove billing`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: use remove NAME, or nothing for a list", args[0])
			}
			return nil
		},
	})
	c.AddCommand(a.listenersRemoveCommand())
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		names, err := s.inspector.Listeners(ctx)
		missing, err := partly(err)
		if err != nil {
			return err
		}
		if a.json {
			return cmp.Or(a.printJSON(names), missing)
		}
		if len(names) == 0 {
			fmt.Fprintln(a.out, "no named listener")
			return missing
		}
		a.printRows(listenerRows(names, a.now(ctx, s)), 0, 1, 2, 5, 6)
		return missing
	})
}

// listenerRows returns the table of named listeners.
func listenerRows(names []notify.ListenerInfo, now time.Time) [][]string {
	rows := [][]string{{"NAME", "PATTERN", "FROM", "LEASED", "BEHIND", "LISTENS", "OLDEST"}}
	for _, n := range names {
		rows = append(rows, []string{n.Name, n.Pattern, n.From, fmt.Sprint(n.Held), fmt.Sprint(n.Behind), api.WhoListens(n), oldest(n, now)})
	}
	return rows
}

// oldest returns when the oldest broadcast was sent that a name has not received yet, and whether some are lost or at risk.
func oldest(n notify.ListenerInfo, now time.Time) string {
	at := relative(n.Oldest, now)
	switch {
	case n.Missed:
		at += ", others are gone"
	case n.AtRisk:
		at += ", at risk"
	}
	return at
}

func (a *app) listenersRemoveCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a named listener",
		Long: `Forget a named listener, its position and its leases. Processes that listen under
the name end with an error.`,
		Example: `  bellhop listeners remove billing`,
		Args:    takes("NAME"),

		ValidArgsFunction: a.first(a.listenersLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := s.inspector.RemoveListener(ctx, args[0]); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]string{"removed": args[0]})
		}
		terminal.Printf(a.out, "removed %s\n", args[0])
		return nil
	})
}
