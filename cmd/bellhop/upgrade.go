package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/calls"
)

func (a *app) upgradeCommand() *cobra.Command {
	var c *cobra.Command
	c = callCommand(a, "upgrade", &cobra.Command{
		Use:   "upgrade",
		Short: "Let the store hold what this version adds",
		Long: `Let the store hold what this version adds, once all programs are of it. A new
version works beside the one before until then, and refuses what that would not
understand. An upgrade touches no message and takes a moment, while all goes on.
There is no way back but an export: a program that does not work with the new
format of the store is refused from then on. While such programs are there they
are named, and nothing is changed. One that makes a call more seldom than each
minute, and is no daemon, worker or listener, is not known.`,
		Example: `  bellhop upgrade --dry-run
  bellhop upgrade`,
	}, func(_ context.Context, _ *session, _ []string, u calls.Upgrade) error {
		fmt.Fprint(a.out, describeUpgrade(u))
		if dryRun, _ := c.Flags().GetBool("dry-run"); u.From != u.To && !dryRun { // fails for no flag
			fmt.Fprintln(a.out, "done")
		}
		return nil
	}, "dry_run", "yes")
	return c
}

// describeUpgrade tells people what an upgrade brings, a line each.
func describeUpgrade(u calls.Upgrade) string {
	if u.From == u.To {
		return fmt.Sprintf("nothing to do: the store has format %d, the newest of this version\n", u.To)
	}
	text := fmt.Sprintf("format %d → %d adds %s\n", u.From, u.To, strings.Join(u.Adds, ", "))
	for _, one := range u.Refused {
		text += "shuts out " + one + "\n"
	}
	if u.Unasked {
		text += "who makes calls is not known, since Redis runs scripts: see bellhop doctor\n"
	}
	return text
}
