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
--due is given. Without --body, standard input is the body, unchanged.

Listeners are bellhop listen, listeners in Go, and programs in any language that
subscribe to bellhop:broadcast:TOPIC in Redis, or to bellhop.broadcast.TOPIC in
NATS if the daemon has BELLHOP_NATS_URL. Sent broadcasts are kept for later
listeners as long as BELLHOP_BROADCAST_KEEP says; past its --ttl a broadcast is not
sent, and later listeners leave it out. A scheduled broadcast can be inspected,
cancelled and rescheduled like other messages.

An id is in use until the broadcast is sent, and for --unique-for longer. A publish
with an id that is in use is refused, unless --if-exists says what happens.
bellhop publish --file sends many.`,
		Example: `  bellhop broadcast prices.gold --body 42
  bellhop broadcast prices.gold --id closing --delay 1h \
    --body '{"price":42}' --content-type application/json
  date | bellhop broadcast clock --due 2030-01-01T00:00:00Z`,
		Args: takes("TOPIC"),
	})
	f.add(c)
	c.SetFlagErrorFunc(explainFlag)
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := f.checkOne(c); err != nil {
			return wrong(err)
		}
		return a.publishOne(ctx, s, args[0], &f)
	})
}

// explainFlag is explainValue that adds to the error of an unknown flag why only publish has it.
func explainFlag(c *cobra.Command, err error) error {
	var unknown interface{ GetSpecifiedName() string }
	if !errors.As(err, &unknown) {
		return explainValue(c, err)
	}
	switch unknown.GetSpecifiedName() {
	case "lease":
		return fmt.Errorf("%w: a broadcast has no lease of its own, but each named listener has: bellhop listen --name NAME --lease DURATION", err)
	case "try-timeout", "fail", "late-after", "late", "then":
		return fmt.Errorf("%w: a broadcast has none: it is for a message to one worker, which bellhop publish sends", err)
	case "attempts":
		return fmt.Errorf("%w: a broadcast has no limit of its own, but each named listener has: bellhop listen --name NAME --attempts N", err)
	case "file":
		return fmt.Errorf("%w: many are sent by bellhop publish --file, with \"mode\":\"broadcast\" in each line", err)
	}
	return err
}
