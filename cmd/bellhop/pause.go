package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) pauseCommand() *cobra.Command {
	var until string
	c := a.jsonFlag(&cobra.Command{
		Use:   "pause TOPIC",
		Short: "Hand out no messages of a topic",
		Long: `Hand out no messages of a topic until bellhop resume, or the time that --until
gives. Messages are accepted, become ready and expire as usual; leased ones are
finished, and broadcasts are sent. Pausing a paused topic changes only when the
pause ends: without --until it does not end by itself.`,
		Example: `  bellhop pause order.timeout
  bellhop pause order.timeout --until 60s
  bellhop topics --json | jq '.[] | select(.paused) | .topic'`,
		Args: takes("TOPIC"),
	})
	c.Flags().StringVar(&until, "until", "", "resume the topic then: `WHEN` is how long from now on, such\nas 60s, or a time such as 2030-01-02T15:04:05Z")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if c.Flags().Changed("until") && until == "" {
			return misused("until", "until: it is empty; write how long from now on, such as 60s, or leave it out")
		}
		end, err := api.Pause(ctx, s.store, s.inspector, args[0], until)
		if err != nil {
			return err
		}
		switch {
		case a.json:
			return a.printJSON(pauseChange{args[0], true, end})
		case end.IsZero():
			terminal.Printf(a.out, "%s paused\n", args[0])
		default:
			terminal.Printf(a.out, "%s paused until %s\n", args[0], a.when(end, a.now(ctx, s)))
		}
		return nil
	})
}

func (a *app) resumeCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "resume TOPIC",
		Short: "Hand out the messages of a paused topic again",
		Long: `Hand out the messages of a paused topic again; those that became ready meanwhile
are handed out at once. Resuming a topic that is not paused changes nothing.`,
		Example: `  bellhop resume order.timeout`,
		Args:    takes("TOPIC"),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := s.inspector.Resume(ctx, args[0]); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(pauseChange{Topic: args[0]})
		}
		terminal.Printf(a.out, "%s resumed\n", args[0])
		return nil
	})
}

// A pauseChange is a pause, or its end, as JSON.
type pauseChange struct {
	Topic  string    `json:"topic"`
	Paused bool      `json:"paused"`
	Until  time.Time `json:"until,omitzero"`
}
