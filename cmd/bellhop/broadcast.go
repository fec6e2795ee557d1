package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) broadcastCommand() *cobra.Command {
	f := publishFlags{broadcast: true}
	c := a.jsonFlag(&cobra.Command{
		Use:   "broadcast TOPIC",
		Short: "Send a message to everyone who listens, now or later",
		Long: `Send a message to everyone who listens to the topic, at once unless --delay or
--due is given. Without --body the body is read from standard input, as it is.

Who listens: bellhop listen, listeners in Go, and programs of any language that
subscribe to bellhop:broadcast:TOPIC in Redis, or to bellhop.broadcast.TOPIC in
NATS where the daemon has BELLHOP_NATS_URL. It is kept for those who come later,
as BELLHOP_BROADCAST_KEEP says. While it waits for its due time it may be
inspected, cancelled and rescheduled as other messages are.

An id is in use until the broadcast is sent. Many are sent with
bellhop publish --file.`,
		Example: `  bellhop broadcast prices.gold --body 42
  bellhop broadcast prices.gold --id closing --delay 1h --body '{"price":42}' --content-type application/json
  date | bellhop broadcast clock --due 2030-01-01T00:00:00Z`,
		Args: takes("TOPIC"),
	})
	f.add(c)
	c.SetFlagErrorFunc(explainFlag)
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		if err := f.checkOne(c); err != nil {
			return wrong(err)
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		defer s.store.Close()
		return a.publishOne(ctx, s, args[0], &f)
	})
}

// explainFlag says of a flag that publish has why broadcast does not have it.
func explainFlag(_ *cobra.Command, err error) error {
	var unknown interface{ GetSpecifiedName() string }
	if !errors.As(err, &unknown) {
		return err
	}
	switch unknown.GetSpecifiedName() {
	case "ttl":
		return fmt.Errorf("%w: a broadcast has none, it is sent when it is due and then kept as BELLHOP_BROADCAST_KEEP says", err)
	case "attempts":
		return fmt.Errorf("%w: a broadcast has no limit of its own, each listener with a name has: bellhop listen --name NAME --attempts N", err)
	case "file":
		return fmt.Errorf("%w: many are sent with bellhop publish --file, whose lines may say \"mode\":\"broadcast\"", err)
	}
	return err
}
