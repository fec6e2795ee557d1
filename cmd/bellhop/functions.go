package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

func (a *app) functionsCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "functions",
		Short: "Load the functions that Redis runs for this version",
		Long: `Redis runs what Bellhop does as functions of a library, which is quicker than
scripts. A function runs with the rights of its caller, and whoever may load functions
may replace those of others: so in a Redis with users of its own only one of the
operator loads them, and all others only call them.`,
		Example: `  bellhop functions load`,
	}, "load", a.functionsLoadCommand())
}

func (a *app) functionsLoadCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "load",
		Short: "Load this version's functions into each master",
		Long: `Load this version's functions into each master, before the version is installed
everywhere and after a master lost them. Those of other versions stay beside them,
and are deleted once nobody has used them for three days. Processes that run scripts meanwhile call
the functions within ten seconds. It may be repeated. A daemon whose user has the
rights does all this by itself.`,
		Example: `  BELLHOP_REDIS_URL=redis://operator:PASSWORD@10.0.0.1 bellhop functions load`,
		Args:    takes(),
	})
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		all, err := s.store.LoadFunctions(ctx)
		if a.json {
			return cmp.Or(err, a.printJSON(loadedRows(all)))
		}
		for _, one := range all {
			fmt.Fprintln(a.out, describeLoaded(one))
		}
		return err
	})
}

// A loadedRow is what was done at a server, printed as JSON.
type loadedRow struct {
	Server  string   `json:"server"`
	Loaded  bool     `json:"loaded"` // false: they were there
	Deleted []string `json:"deleted,omitempty"`
}

func loadedRows(all []reach.Loaded) []loadedRow {
	rows := make([]loadedRow, len(all))
	for i, one := range all {
		rows[i] = loadedRow(one)
	}
	return rows
}

func describeLoaded(one reach.Loaded) string {
	what := "loaded"
	if !one.Loaded {
		what = "loaded before"
	}
	if len(one.Deleted) > 0 {
		what += ", deleted " + strings.Join(one.Deleted, " ")
	}
	return one.Server + ": " + what
}
