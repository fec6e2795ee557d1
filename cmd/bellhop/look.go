package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) carrierCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:     "carrier",
		Short:   "Show which carrier is elected, and what is due next",
		Example: `  bellhop carrier`,
		Args:    takes(),
	})
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		status, err := carrier.Look(ctx, s.store.Home())
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(api.CarrierOf(status))
		}
		return table(a.out, func(w io.Writer) {
			if status.Name == "" {
				fmt.Fprintln(w, "carrier\tnone is elected; start one with bellhop serve")
			} else {
				terminal.Printf(w, "carrier\t%s\nepoch\t%d\nelected\t%s\nlease ends\t%s\n", status.Name, status.Epoch, a.when(status.Since), relative(status.Lease))
			}
			terminal.Printf(w, "next due\t%s\n", a.when(status.Next))
		})
	})
}

func (a *app) configCommand() *cobra.Command {
	var env bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "config",
		Short: "List every setting, its value and its source",
		Long: `List every setting: the environment variable, its value, its default, the value's
source, and its meaning. No secret is printed.

With --env print a file for systemd's EnvironmentFile= instead: every setting with
its meaning and its default, and none of them set.`,
		Example: `  bellhop config
  BELLHOP_LEASE=1m bellhop config --json
  bellhop config --env > bellhop.env`,
		Args: takes(),
	})
	c.Flags().BoolVar(&env, "env", false, "print an environment file that documents every setting")
	c.MarkFlagsMutuallyExclusive("env", "json")
	return a.command(c, func(context.Context, *cobra.Command, []string) error {
		if env {
			_, err := io.WriteString(a.out, daemon.EnvironmentFile())
			return err
		}
		c, err := a.load()
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(c.Settings())
		}
		return table(a.out, func(w io.Writer) {
			fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tSOURCE\tMEANING")
			for _, s := range c.Settings() {
				terminal.Printf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, dash(s.Value), dash(s.Default), s.Source, s.Doc)
			}
		})
	})
}

// dash returns "-" for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
