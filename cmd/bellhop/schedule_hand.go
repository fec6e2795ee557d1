package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

func (a *app) scheduleRunCommand() *cobra.Command {
	return callCommand(a, "runSchedule", &cobra.Command{
		Use:   "run TOPIC NAME",
		Short: "Publish the message of a schedule now",
		Long: `Publish the message of a schedule now, also while it is paused, with the id NAME~TIME,
which has milliseconds. Nothing else of the schedule changes. With --overlap skip, too,
the message waits until the one before has ended.`,
		Example: "  bellhop schedule run invoices daily",
	}, func(ctx context.Context, s *session, _ []string, p api.Publication) error {
		return a.printPublication(p, a.now(ctx, s))
	})
}

func (a *app) scheduleBackfillCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "backfill TOPIC NAME FROM..TO",
		Short: "Make the occurrences of a schedule between two times in the past",
		Long: `Make the occurrences of a schedule between two times in the past, up to 1,000: those
from FROM on and before TO, or without TO up to now, whether they were made before or
not, also while it is paused. They have their ordinary ids and headers, and are due at
once, the oldest first. With --overlap skip, too, they wait until the one before has
ended. Nothing else of the schedule changes.

An id that is in use is left as it is, and printed. For an hour after its end the id
of what a backfill made stays taken, so one that was broken off, even by kill -9, is
made whole by repeating it.`,
		Example: `  bellhop schedule backfill invoices daily \
    2026-11-20T00:00:00Z..2026-11-22T00:00:00Z --dry-run
  bellhop schedule backfill invoices daily 2026-11-20T00:00:00+01:00..`,
		Args: takes("TOPIC", "NAME", "FROM..TO"),
	})
	addParams(c, calls.Named("backfillSchedule"), "dry_run")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		from, to, whole := strings.Cut(args[2], "..")
		if !whole || from == "" {
			return fault.New("from", "%.100q: write FROM..TO, such as 2026-11-20T00:00:00Z..2026-11-22T00:00:00Z, or FROM.. for up to now", args[2])
		}
		dryRun := c.Flags().Lookup("dry-run").Value.String()
		done, err := ask[calls.Backfilled](ctx, s, "backfillSchedule", map[string]string{"topic": args[0], "name": args[1], "from": from, "to": to, "dry_run": dryRun})
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(done)
		}
		a.printBackfilled(args[0], args[1], &done)
		return nil
	})
}

func (a *app) printBackfilled(topic, name string, done *calls.Backfilled) {
	would := ""
	if done.DryRun {
		would = "would be "
	}
	for _, one := range done.Occurrences {
		switch {
		case one.Taken:
			terminal.Printf(a.out, "%s %s is in use, and left as it is\n", topic, one.ID)
		case done.DryRun:
			terminal.Printf(a.out, "%s %s would be made\n", topic, one.ID)
		}
	}
	terminal.Printf(a.out, "%s %s: %d %smade, %d taken\n", topic, name, done.Made, would, done.Taken)
}

func (a *app) scheduleNextCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "next [TOPIC NAME]",
		Short: "Print when a schedule fires next, or a rule that is not put yet",
		Long: `Print the next times at which a schedule fires, in its zone: of one that is there, or,
without TOPIC and NAME, of a rule that is tried out, for which no Redis is needed.`,
		Example: `  bellhop schedule next invoices daily
  bellhop schedule next --cron '30 2 1 * *' --zone Europe/Berlin --number 12
  bellhop schedule next --every 90m --from 2030-01-01T00:00:00Z`,
		Args: takes("[TOPIC]", "[NAME]"),
	})
	rule := addFields(c, fields.In[calendar.Spec]())
	var n int
	c.Flags().IntVar(&n, "number", 5, "how many times, up to 1000")
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		if err := errors.Join(checkNext(rule, args), checkFields(rule)); err != nil {
			return wrong(err)
		}
		if err := fault.Within("number", "number", n, 1, mostNext); err != nil {
			return err
		}
		f, err := a.firesNext(ctx, args, rule, n)
		if err != nil {
			return err
		}
		return a.printNext(&f)
	})
}

// mostNext is how many times next prints at the most.
const mostNext = 1000

// checkNext requires either a schedule or a rule.
func checkNext(rule []*flagField, args []string) error {
	for _, f := range rule {
		switch {
		case len(f.texts) > 0 && len(args) > 0:
			return misused(f.flag, "unexpected flag --%s: the schedule %s has its rule; leave the flag or the schedule out", f.flag, args[len(args)-1])
		case len(f.texts) > 0:
			return nil
		}
	}
	switch len(args) {
	case 0:
		return misused("topic", "TOPIC and NAME are missing; name a schedule, or give a rule such as --cron '30 2 * * *'")
	case 1:
		return misused("name", "NAME is missing")
	}
	return nil
}

// A firing is when a schedule fires, or why it does not.
type firing struct {
	calls.ScheduleNext
	zone   string
	paused bool
	now    time.Time
}

// firesNext returns the next n times of a schedule that is there, or of a rule alone.
func (a *app) firesNext(ctx context.Context, args []string, rule []*flagField, n int) (f firing, err error) {
	if len(args) == 0 {
		s := store.Schedule{Topic: "rule", Name: "rule"}
		faults, _ := setFields(rule, &s.Spec)
		if err := cmp.Or(errors.Join(faults...), s.Check()); err != nil {
			return f, err
		}
		f.zone, f.now = s.Zone, time.Now()
		f.ScheduleNext = calls.NextOf(&s, &store.ScheduleState{}, f.now, n)
		return f, nil
	}
	s, err := a.open()
	if err != nil {
		return f, err
	}
	defer s.store.Close()
	of := map[string]string{"topic": args[0], "name": args[1], "n": strconv.Itoa(n)}
	if f.ScheduleNext, err = ask[calls.ScheduleNext](ctx, s, "nextOfSchedule", of); err != nil || a.json {
		return f, err
	}
	shown, err := ask[calls.Schedule](ctx, s, "showSchedule", of)
	f.zone, f.paused, f.now = shown.Zone, shown.State.Paused != nil, a.now(ctx, s)
	return f, err
}

// printNext prints when a schedule fires.
func (a *app) printNext(f *firing) error {
	if a.json {
		return a.printJSON(f.ScheduleNext)
	}
	for _, at := range firesAt(f.Next, f.zone, f.now) {
		terminal.Printf(a.out, "%s\n", at)
	}
	switch {
	case f.paused:
		fmt.Fprintln(a.out, "it does not fire: it is paused")
	case len(f.Next) == 0:
		fmt.Fprintln(a.out, "it does not fire: it is at its end")
	}
	return nil
}
