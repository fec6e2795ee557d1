package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) rotateCommand() *cobra.Command {
	return callCommand(a, "rotateSecret", &cobra.Command{
		Use:   "rotate",
		Short: "End all logins to the console, and all settle tokens of NATS",
		Long: `Replace the secret with which the daemons of a store sign, as when a cookie or a
backup of Redis fell into wrong hands. Within a second or two all daemons refuse
what was signed before: who uses the console logs in again, with the same token,
what was claimed over NATS can no more be settled by those who have it, so that it
is delivered again when its lease ends, and searches under way begin anew. The same
goes for what a daemon signs within that second. Nothing else changes, and no
daemon has to be restarted. Tokens of the tokens file stay as they are.`,
		Example: `  bellhop rotate`,
	}, func(context.Context, *session, []string, any) error {
		fmt.Fprintln(a.out, "the secret is rotated; daemons refuse what was signed before within a second or two")
		return nil
	})
}
