package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.switchCommand(&cobra.Command{
		Use:   "pause TOPIC",
		Short: "Hand out no messages of a topic",
		Long: `Hand out no messages of a topic until bellhop resume. Messages are accepted, become
ready and expire as usual; leased ones are finished, and broadcasts are sent.
Pausing a paused topic changes nothing.`,
		Example: `  bellhop pause order.timeout
  bellhop topics --json | jq '.[] | select(.paused) | .topic'`,
	}, (*notify.Inspector).Pause, true)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.switchCommand(&cobra.Command{
		Use:   "resume TOPIC",
		Short: "Hand out the messages of a paused topic again",
		Long: `Hand out the messages of a paused topic again; those that became ready meanwhile
are handed out at once. Resuming a topic that is not paused changes nothing.`,
		Example: `  bellhop resume order.timeout`,
	}, (*notify.Inspector).Resume, false)
}

// switchCommand completes a command that pauses or resumes a topic.
func (a *app) switchCommand(c *cobra.Command, change func(*notify.Inspector, context.Context, string) error, paused bool) *cobra.Command {
	c.Args = takes("TOPIC")
	return a.withStore(a.jsonFlag(c), func(ctx context.Context, s *session, args []string) error {
		if err := change(s.inspector, ctx, args[0]); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Topic  string `json:"topic"`
				Paused bool   `json:"paused"`
			}{args[0], paused})
		}
		terminal.Printf(a.out, "%s %s\n", args[0], map[bool]string{true: "paused", false: "resumed"}[paused])
		return nil
	})
}
