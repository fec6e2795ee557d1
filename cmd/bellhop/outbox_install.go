package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

// databaseFlag gives a command the flag --url.
func databaseFlag(c *cobra.Command, url *string) {
	c.Flags().StringVar(url, "url", "", "the database, postgres://USER@HOST/DATABASE")
}

// theDatabase returns the database that --url names.
func theDatabase(url string) (database.Address, error) {
	at := database.Address{URL: url}
	switch {
	case url == "":
		return at, wrong(misused("url", "--url is missing: name the database, such as postgres://admin@db1/shop"))
	case database.HasPassword(url):
		return at, wrong(misused("url", "--url contains a password, which ps shows to everybody: put ?passfile=FILE behind it, or set PGPASSWORD"))
	}
	return at, at.Check()
}

func (a *app) outboxInstallCommand() *cobra.Command {
	var url, most string
	var o outbox.InstallOptions
	var onlyPrint bool
	c := &cobra.Command{
		Use:   "install",
		Short: "Make the outbox in a database, or bring it to this version",
		Long: `Make the outbox in a database, PostgreSQL 13 or newer, or bring it to this version:
the table bellhop.outbox and the functions bellhop.publish. It may be repeated. Rows
stay, and so does who may publish. The user owns what is made, and needs CREATE on the
database, or on the schema bellhop. The password is that of ~/.pgpass, of ?passfile=FILE
in the URL, or of PGPASSWORD.

Who may publish may do so to any topic, and may not read the table. A copy of a
database needs an id of its own before a daemon relays from it, too: --new-id.`,
		Example: `  bellhop outbox install --url postgres://db1/shop --grant app --relay bellhop
  bellhop outbox install --print --grant app > migrations/0042_bellhop.sql`,
		Args: takes(),
	}
	databaseFlag(c, &url)
	flags := c.Flags()
	flags.StringArrayVar(&o.Grant, "grant", nil, "a role that may publish; may be repeated")
	flags.StringArrayVar(&o.Relay, "relay", nil, "the role of the daemons that relay; may be repeated")
	flags.StringVar(&most, "max-body", "", "largest body, such as 1MiB, up to BELLHOP_MAX_BODY (default: as it was, at first 256KiB)")
	flags.BoolVar(&o.NewID, "new-id", false, "give the outbox, a copy of another one, an id of its own")
	flags.BoolVar(&onlyPrint, "print", false, "print the statements, to be run by other means, and change nothing")
	return a.command(c, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if most != "" {
			var size daemon.Size
			if err := size.Decode(most); err != nil {
				return wrong(misused("max_body", "--max-body %q: write a size such as 262144, 256KiB or 1MiB", most))
			}
			o.MaxBody = int(size)
		}
		if onlyPrint {
			statements, err := outbox.Print(o)
			if err == nil {
				_, err = io.WriteString(a.out, statements)
			}
			return err
		}
		at, err := theDatabase(url)
		if err != nil {
			return err
		}
		made, err := outbox.Install(ctx, at, o)
		if err != nil {
			return err
		}
		what := "made the outbox"
		if made.From > 0 {
			what = fmt.Sprintf("the outbox was there, version %d; installed it again", made.From)
		}
		terminal.Printf(a.out, "%s, id %s, version %d, with bodies of up to %s\n", what, made.ID, outbox.Version, daemon.Size(made.MaxBody))
		return nil
	})
}

func (a *app) outboxUninstallCommand() *cobra.Command {
	var url string
	var yes bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the outbox from a database",
		Long: `Remove the outbox from a database, with all messages in it that were not published.
Take its URL from the daemons first. The schema bellhop goes, too, unless the archive
is in it.`,
		Example: `  bellhop outbox uninstall --url postgres://admin@db1/shop --yes`,
		Args:    takes(),
	}
	databaseFlag(c, &url)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.command(c, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		at, err := theDatabase(url)
		if err != nil {
			return err
		}
		const why = "messages that were not published yet go with the outbox"
		if err := a.confirm(ctx, "Remove the outbox, with all messages in it that were not published?", why, yes); err != nil {
			return err
		}
		rows, err := outbox.Uninstall(ctx, at)
		if err == nil {
			terminal.Printf(a.out, "removed the outbox, and with it %s\n", text.Plural(rows, "message"))
		}
		return err
	})
}
