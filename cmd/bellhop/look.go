package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

func (a *app) carrierCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "carrier",
		Short: "Show which carrier is elected, and what is due next",
		Long: `Show which carrier is elected, and what is due next. Each of several shards has a
carrier of its own: then show a row for each. Exits with 1 if none is elected, or none
of a shard.`,
		Example: `  bellhop carrier`,
		Args:    takes(),
	})
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		all, err := ask[calls.Carriers](ctx, s, "carrier", nil)
		switch {
		case err != nil:
			return err
		case a.json:
			err = a.printJSON(all)
		case len(all.Shards) > 0:
			a.printCarriers(all.Shards, a.now(ctx, s))
		default:
			err = a.printCarrier(all.Carrier, a.now(ctx, s))
		}
		return cmp.Or(err, all.Missing.Err(), vacancy(all))
	})
}

// vacancy returns errReported if a shard has no carrier.
func vacancy(all calls.Carriers) error {
	if all.Name == "" || slices.ContainsFunc(all.Shards, func(c calls.ShardCarrier) bool { return c.Name == "" }) {
		return errReported
	}
	return nil
}

// printCarrier prints the carrier of a store of one shard.
func (a *app) printCarrier(c calls.Carrier, now time.Time) error {
	return text.Table(a.out, func(w io.Writer) {
		if c.Name == "" {
			fmt.Fprintln(w, "carrier\tnone is elected; start one with bellhop serve")
		} else {
			terminal.Printf(w, "carrier\t%s\nepoch\t%d\nelected\t%s\nlease ends\t%s\n", c.Name, c.Epoch, a.when(timeOf(c.Since), now), leaseOf(c))
		}
		terminal.Printf(w, "next due\t%s\n", a.when(timeOf(c.Next), now))
	})
}

// leaseOf says when the lease of a carrier ends.
func leaseOf(c calls.Carrier) string {
	return "in " + text.Rough(time.Duration(c.LeaseMs)*time.Millisecond)
}

// printCarriers prints the carriers of several shards.
func (a *app) printCarriers(all []calls.ShardCarrier, now time.Time) {
	rows := [][]string{{"SHARD", "CARRIER", "EPOCH", "ELECTED", "LEASE ENDS", "NEXT DUE"}}
	for _, c := range all {
		row := []string{strconv.Itoa(c.Shard), "none", "-", "-", "-", "-"}
		if c.Name != "" {
			row = []string{row[0], c.Name, strconv.FormatInt(c.Epoch, 10), text.Relative(timeOf(c.Since), now), leaseOf(c.Carrier), "-"}
		}
		row[5] = text.Relative(timeOf(c.Next), now)
		rows = append(rows, row)
	}
	a.printRows(rows, 1)
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
			return a.printJSON(c.Settings(a.env))
		}
		return text.Table(a.out, func(w io.Writer) {
			fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tSOURCE\tMEANING")
			for _, s := range c.Settings(a.env) {
				terminal.Printf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, text.Dash(s.Value), text.Dash(s.Default), s.Source, s.Doc)
			}
		})
	})
}
