package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
)

// benchCommand says where the benchmark is, which was a command.
func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Hidden: true, DisableFlagParsing: true, Short: "Is a program of its own", Example: "  make bench"}
	return a.command(c, func(context.Context, *cobra.Command, []string) error {
		return misused("command", "bench is a program of its own: run make bench in the source, or go run github.com/bellhopd/bellhop/cmd/bellhop/bench -help")
	})
}

// root returns the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "bellhop",
		Short: "Deliver messages later, on Redis",
		Long: `Bellhop delivers messages later, to the right place, without polling.
Messages wait in Redis until they are due, and then wake their worker; broadcasts
reach everyone who listens.

Settings are read from the environment: see bellhop config.
SIGTERM or Ctrl-C stops a command gracefully; a second one ends it at once.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 ended at once;
of doctor --check also 3, warnings; of inspect --wait also 4, 5 and 6: see there.`,
		Example: `  bellhop dev
  bellhop publish greetings --delay 5s --body hello
  bellhop work greetings
  bellhop broadcast prices.gold --delay 5s --body 42
  bellhop listen 'prices.>'`,
		Version:                    thisBuild().String(),
		SuggestionsMinimumDistance: 1,
		SilenceUsage:               true,
		SilenceErrors:              true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainValue)
	root.AddCommand(
		a.serveCommand(), a.devCommand(),
		a.publishCommand(), a.workCommand(), a.broadcastCommand(), a.listenCommand(), a.listenersCommand(), a.workersCommand(), a.topicsCommand(), a.keysCommand(), a.groupsCommand(), a.pushCommand(), a.scheduleCommand(), a.forecastCommand(),
		a.pauseCommand(), a.resumeCommand(),
		a.inspectCommand(), a.cancelCommand(), a.rescheduleCommand(), a.findCommand(), a.deadCommand(), a.archiveCommand(), a.outboxCommand(), a.exportCommand(),
		a.carrierCommand(), a.shardsCommand(), a.doctorCommand(), a.functionsCommand(), a.upgradeCommand(), a.rotateCommand(), a.benchCommand(), a.configCommand(), a.versionCommand(), a.manCommand(),
	)
	a.complete(root)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Example = "  bellhop completion bash > /etc/bash_completion.d/bellhop"
			c.RunE = func(_ *cobra.Command, args []string) error {
				return wrong(fmt.Errorf("unknown shell %q: use bash, zsh, fish or powershell", strings.Join(args, " ")))
			}
			c.Args = cobra.ArbitraryArgs
		}
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages |", fmt.Sprintf("FlagUsagesWrapped %d |", helpWidth)))
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // not before: to fold all helps takes longer than many a command
		c.Long = text.Fold(c.Long, helpWidth)
		help(c, args)
	})
	return root
}
