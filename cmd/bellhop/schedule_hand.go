package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func (a *app) scheduleRunCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "run TOPIC NAME",
		Short: "Publish the message of a schedule now",
		Long: `Publish the message of a schedule now, also while it is paused, with the id NAME~TIME,
which has milliseconds. Nothing else of the schedule changes. With --overlap skip, too,
the message waits until the one before has ended.`,
		Example: "  bellhop schedule run invoices daily",
		Args:    takes("TOPIC", "NAME"),

		ValidArgsFunction: a.first(a.topicsLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := checkSchedule(args[0], args[1]); err != nil {
			return err
		}
		p, err := api.RunSchedule(ctx, s.store, args[0], args[1])
		if err != nil {
			return err
		}
		return a.printPublication(p, a.now(ctx, s))
	})
}

func (a *app) scheduleBackfillCommand() *cobra.Command {
	var dry bool
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

		ValidArgsFunction: a.first(a.topicsLike),
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "make nothing, and print what would be made")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := checkSchedule(args[0], args[1]); err != nil {
			return err
		}
		b, err := backfillOf(args[2])
		if err != nil {
			return err
		}
		b.Topic, b.Name, b.DryRun = args[0], args[1], dry
		done, err := api.BackfillSchedule(ctx, s.store, b)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(done)
		}
		a.printBackfilled(&b, &done)
		return nil
	})
}

// backfillOf reads FROM..TO.
func backfillOf(text string) (b store.Backfill, err error) {
	from, to, whole := strings.Cut(text, "..")
	if !whole || from == "" {
		return b, fault.New("from", "%.100q: write FROM..TO, such as 2026-11-20T00:00:00Z..2026-11-22T00:00:00Z, or FROM.. for up to now", text)
	}
	if b.From, err = fields.ParseTime("from", from); err != nil || to == "" {
		return b, err
	}
	b.To, err = fields.ParseTime("to", to)
	return b, err
}

func (a *app) printBackfilled(b *store.Backfill, done *api.Backfilled) {
	would := ""
	if b.DryRun {
		would = "would be "
	}
	for _, one := range done.Occurrences {
		switch {
		case one.Taken:
			terminal.Printf(a.out, "%s %s is in use, and left as it is\n", b.Topic, one.ID)
		case b.DryRun:
			terminal.Printf(a.out, "%s %s would be made\n", b.Topic, one.ID)
		}
	}
	terminal.Printf(a.out, "%s %s: %d %smade, %d taken\n", b.Topic, b.Name, done.Made, would, done.Taken)
}

// mostNext is how many times next prints at the most.
const mostNext = 1000

func (a *app) scheduleNextCommand() *cobra.Command {
	var n int
	var asked api.ScheduleRequest
	c := a.jsonFlag(&cobra.Command{
		Use:   "next [TOPIC NAME]",
		Short: "Print when a schedule fires next, or a rule that is not put yet",
		Long: `Print the next times at which a schedule fires, in its zone: of one that is there, or,
without TOPIC and NAME, of a rule that is tried out, for which no Redis is needed.`,
		Example: `  bellhop schedule next invoices daily
  bellhop schedule next --cron '30 2 1 * *' --zone Europe/Berlin --number 12
  bellhop schedule next --every 90m --from 2030-01-01T00:00:00Z`,
		Args: takes("[TOPIC]", "[NAME]"),

		ValidArgsFunction: a.first(a.topicsLike),
	})
	addRule(c, &asked)
	c.Flags().IntVar(&n, "number", 5, "how many times, up to 1000")
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		if err := checkNext(c, args); err != nil {
			return wrong(err)
		}
		if err := fault.Within("number", "number", n, 1, mostNext); err != nil {
			return err
		}
		l, err := a.toFire(ctx, args, asked)
		if err != nil {
			return err
		}
		return a.printNext(&l, n)
	})
}

// addRule gives a command the flags that say when a schedule fires.
func addRule(c *cobra.Command, asked *api.ScheduleRequest) {
	flags := c.Flags()
	flags.StringVar(&asked.Cron, "cron", "", "`RULE` of five or six fields, or @hourly, @daily, @weekly, @monthly, @yearly")
	flags.StringVar(&asked.Every, "every", "", "a pause, counted from --from or 1970; such as 15m")
	flags.StringArrayVar(&asked.At, "at", nil, "a `TIME` at which it fires; may be repeated")
	flags.StringVar(&asked.Zone, "zone", "", "time zone of --cron, such as Europe/Berlin (default UTC)")
	flags.StringVar(&asked.From, "from", "", "`TIME` before which it does not fire")
	flags.StringVar(&asked.Until, "until", "", "`TIME` after which it does not fire")
}

// ruleFlags are those flags.
var ruleFlags = []string{"cron", "every", "at", "zone", "from", "until"}

// checkNext requires either a schedule or a rule.
func checkNext(c *cobra.Command, args []string) error {
	for _, flag := range ruleFlags {
		switch given := c.Flags().Changed(flag); {
		case given && len(args) > 0:
			return misused(flag, "unexpected flag --%s: the schedule %s has its rule; leave the flag or the schedule out", flag, args[len(args)-1])
		case given:
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

// toFire returns a schedule that is there, or one of a rule alone.
func (a *app) toFire(ctx context.Context, args []string, asked api.ScheduleRequest) (lookedAt, error) {
	if len(args) == 0 {
		s, err := asked.Schedule("rule", &notify.Message{Topic: "rule"})
		if err != nil {
			return lookedAt{}, err
		}
		return lookedAt{Schedule: *s, now: time.Now()}, nil
	}
	s, err := a.open()
	if err != nil {
		return lookedAt{}, err
	}
	defer s.store.Close()
	return lookAtSchedule(ctx, s, args[0], args[1])
}

func (a *app) printNext(l *lookedAt, n int) error {
	if a.json {
		return a.printJSON(api.NextOf(&l.Schedule, &l.state, l.now, n))
	}
	times := l.Following(&l.state, l.now, n)
	for _, at := range times {
		terminal.Printf(a.out, "%s\n", firesAt(at, l.now))
	}
	if len(times) == 0 {
		paused := map[bool]string{true: "it is paused", false: "it is at its end"}[!l.state.Paused.IsZero()]
		terminal.Printf(a.out, "it does not fire: %s\n", paused)
	}
	return nil
}

// firesAt is a time at which a schedule fires, in its zone.
func firesAt(at, now time.Time) string {
	return at.Format(api.InZone) + " (" + text.Relative(at, now) + ")"
}
