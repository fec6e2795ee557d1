package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
)

func (a *app) workersCommand() *cobra.Command {
	return callCommand(a, "workers", &cobra.Command{
		Use:   "workers",
		Short: "List the daemons, workers and listeners that are there",
		Long: `List the daemons, workers and listeners that are connected to Redis: the name of
each, its machine, since when it is there, how many messages it has claimed and not
settled, its version, and its topics. One that was killed stays in the list until the
carrier's housekeeping notices. One that claims over HTTP or NATS, and says worker=NAME,
is in it until the lease that it got last would end, for a minute at least, with the
daemons that it claims through.

bellhop inspect TOPIC ID shows which of them has a leased message.`,
		Example: `  bellhop workers
  bellhop workers --json | jq '.workers[] | select(.kind == "worker")'`,
	}, func(ctx context.Context, s *session, _ []string, all calls.Workers) error {
		if len(all.Workers) == 0 {
			fmt.Fprintln(a.out, "nobody is there; see bellhop serve, work and listen")
			return nil
		}
		a.printRows(workerRows(all.Workers, a.now(ctx, s)), 0, 2, 5, 6)
		return nil
	})
}

// workerRows returns the table of workers.
func workerRows(workers []calls.Worker, now time.Time) [][]string {
	rows := [][]string{{"NAME", "KIND", "HOST", "SINCE", "LEASED", "VERSION", "TOPICS"}}
	for _, w := range workers {
		rows = append(rows, []string{w.Name, w.Kind, text.Dash(w.Place()), text.Relative(w.Since, now), leasedBy(w), text.Dash(w.Version), text.Dash(strings.Join(w.Topics, " "))})
	}
	return rows
}

// leasedBy returns how many leased messages a worker has.
func leasedBy(w calls.Worker) string {
	switch {
	case w.Leased == nil:
		return "-"
	case w.Least:
		return fmt.Sprintf("%d or more", *w.Leased)
	}
	return fmt.Sprint(*w.Leased)
}
