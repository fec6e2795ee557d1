package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

func (a *app) workersCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "workers",
		Short: "List the daemons, workers and listeners that are there",
		Long: `List the daemons, workers and listeners that are connected to Redis: the name of
each, its machine, since when it is there, its version, and its topics. One that was
killed stays in the list until the carrier's housekeeping notices.

bellhop inspect TOPIC ID shows which of them has a leased message.`,
		Example: `  bellhop workers
  bellhop workers --json | jq -r '.[] | select(.kind == "worker") | .host'`,
		Args: takes(),
	})
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		workers, err := s.inspector.Workers(ctx)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(api.WorkersOf(workers).Workers)
		case len(workers) == 0:
			fmt.Fprintln(a.out, "nobody is there; see bellhop serve, work and listen")
		default:
			a.printRows(workerRows(workers), 0, 2, 4, 5)
		}
		return nil
	})
}

// workerRows returns the table of workers.
func workerRows(workers []notify.Worker) [][]string {
	rows := [][]string{{"NAME", "KIND", "HOST", "SINCE", "VERSION", "TOPICS"}}
	for _, w := range workers {
		rows = append(rows, []string{w.Name, w.Kind, dash(w.Host), relative(time.Until(w.Since)), dash(w.Version), dash(strings.Join(w.Topics, " "))})
	}
	return rows
}
