package main

import "github.com/spf13/cobra"

func (a *app) outboxCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "outbox",
		Short: "Publish in the transactions of your database, by SQL",
		Long: `An outbox is a table in your PostgreSQL database, and a function that writes to it:
SELECT bellhop.publish('TOPIC', 'BODY', delay => '30m') publishes once its
transaction commits, and never if that is rolled back.`,
		Example: `  bellhop outbox install --url postgres://db1/shop --grant app --relay bellhop`,
	}, "install or uninstall", a.outboxInstallCommand(), a.outboxUninstallCommand())
}
