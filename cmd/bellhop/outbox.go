package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) outboxCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "outbox",
		Short: "Publish in the transactions of your database, by SQL",
		Long: `An outbox is a table in your PostgreSQL database, and a function that writes to it:
SELECT bellhop.publish('TOPIC', 'BODY', delay => '30m') publishes once its
transaction commits, and never if that is rolled back.

Without a command, show what waits in the outboxes of BELLHOP_OUTBOX_URL, what was
refused, and which daemon relays them.`,
		Example: `  bellhop outbox install --url postgres://db1/shop --grant app --relay bellhop
  bellhop outbox
  bellhop outbox refused`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: use install, uninstall, refused, retry or purge, or nothing for what waits", args[0])
			}
			return nil
		},
	})
	c.AddCommand(a.outboxInstallCommand(), a.outboxUninstallCommand(), a.outboxRefusedCommand(), a.outboxRetryCommand(), a.outboxPurgeCommand())
	return a.withOutboxes(c, func(ctx context.Context, s *session, _ []string) error {
		all, err := ask[calls.Outboxes](ctx, s, "getOutbox", nil)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(all)
		}
		for i, one := range all.Outboxes {
			switch {
			case one.Fault != "":
				a.complain(one.Fault)
				err = cmp.Or(err, errReported)
			case !a.json:
				err = cmp.Or(err, a.printOutbox(one, i > 0))
			}
		}
		return err
	})
}

// withOutboxes is withStore for a command that needs the outboxes of the configuration.
func (a *app) withOutboxes(c *cobra.Command, run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		all := s.config.Outboxes(s.log)
		if len(all) == 0 {
			return configError{errors.New("no outbox is configured: set BELLHOP_OUTBOX_URL, as for bellhop serve")}
		}
		for _, o := range all {
			one, err := outbox.New(s.store, o)
			if err != nil {
				return err
			}
			defer one.Close()
			s.service.Outboxes = append(s.service.Outboxes, one)
		}
		return run(ctx, s, args)
	})
}

// printOutbox prints how an outbox is, behind an empty line or not.
func (a *app) printOutbox(o calls.Outbox, apart bool) error {
	if apart {
		fmt.Fprintln(a.out)
	}
	return text.Table(a.out, func(w io.Writer) {
		waiting, relayed := rowsOf(o.Waiting), o.RelayedBy
		if o.Waiting > 0 {
			waiting += ", the oldest for " + text.Rough(time.Duration(o.OldestMs)*time.Millisecond)
		}
		switch {
		case relayed == "":
			relayed = "nobody; run bellhop serve with this BELLHOP_OUTBOX_URL"
		case o.Since != nil:
			relayed += " since " + a.stamp(*o.Since)
		}
		terminal.Printf(w, "database\t%s\nwaiting\t%s\nrefused\t%s\nrelayed by\t%s\n", o.Database, waiting, rowsOf(o.Refused), relayed)
	})
}

// rowsOf returns a number of rows, of which only some are counted.
func rowsOf(n int) string {
	if n == outbox.MostCounted {
		return "more than " + text.Thousands(strconv.Itoa(n-1))
	}
	return text.Thousands(strconv.Itoa(n))
}

// confirm asks before something is removed, which cannot be undone. Without a terminal it requires --yes, and says why.
func (a *app) confirm(ctx context.Context, question, why string, yes bool) error {
	switch {
	case yes:
		return nil
	case !text.IsTerminal(a.in):
		return wrong(misused("yes", "%s: give --yes to mean it", why))
	}
	return a.ask(ctx, question, "nothing was removed")
}
