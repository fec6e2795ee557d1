package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) pauseCommand() *cobra.Command {
	return callCommand(a, "pause", &cobra.Command{
		Use:   "pause TOPIC",
		Short: "Hand out no messages of a topic",
		Long: `Hand out no messages of a topic until bellhop resume, or the time that --until
gives. Messages are accepted, become ready and expire as usual; leased ones are
finished, and broadcasts are sent. Pausing a paused topic changes only when the
pause ends: without --until it does not end by itself.`,
		Example: `  bellhop pause order.timeout
  bellhop pause order.timeout --until 60s
  bellhop topics --json | jq '.topics[] | select(.paused) | .topic'`,
	}, func(ctx context.Context, s *session, args []string, _ any) error {
		is, err := ask[api.Settings](ctx, s, "settings", map[string]string{"topic": args[0]})
		switch {
		case err != nil:
			return err
		case is.PausedUntil == nil:
			terminal.Printf(a.out, "%s paused\n", args[0])
		default:
			terminal.Printf(a.out, "%s paused until %s\n", args[0], a.when(*is.PausedUntil, a.now(ctx, s)))
		}
		return nil
	}, "until")
}

func (a *app) resumeCommand() *cobra.Command {
	return callCommand(a, "resume", &cobra.Command{
		Use:   "resume TOPIC",
		Short: "Hand out the messages of a paused topic again",
		Long: `Hand out the messages of a paused topic again; those that became ready meanwhile
are handed out at once. Resuming a topic that is not paused changes nothing.`,
		Example: `  bellhop resume order.timeout`,
	}, func(_ context.Context, _ *session, args []string, _ any) error {
		terminal.Printf(a.out, "%s resumed\n", args[0])
		return nil
	})
}
