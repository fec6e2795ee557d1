package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

func (a *app) scheduleCommand() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "schedule",
		Short: "Publish messages again and again, by cron or a pause",
		Long: `Publish messages again and again, by a rule of cron, a pause or a list of times. The
elected carrier makes the next occurrences of a schedule ahead of their times: ordinary
messages, with the ids NAME~TIME, which are found, cancelled and moved as any other.
Each is made once, whichever daemon is killed.`,
		Example: `  bellhop schedule put invoices daily --cron '30 2 * * *' --zone Europe/Berlin \
    --body ''
  bellhop schedule put reports often --every 15m --overlap skip --body ''
  bellhop schedule list
  bellhop schedule show invoices daily
  bellhop schedule pause invoices daily`,
	}, "put, apply, list, show, next, run, backfill, pause, resume or delete",
		a.schedulePutCommand(), a.scheduleApplyCommand(), a.scheduleListCommand(), a.scheduleShowCommand(), a.scheduleNextCommand(),
		a.scheduleRunCommand(), a.scheduleBackfillCommand(),
		a.scheduleChangeCommand("pause", "Pause a schedule; what it made ahead is withdrawn", "paused", store.Shard.PauseSchedule),
		a.scheduleChangeCommand("resume", "Have a schedule go on from now", "resumed", store.Shard.ResumeSchedule),
		a.scheduleChangeCommand("delete", "Delete a schedule; what it made ahead is withdrawn", "deleted", store.Shard.DeleteSchedule),
	)
}

func (a *app) schedulePutCommand() *cobra.Command {
	var asked api.ScheduleRequest
	var count int
	f := publishFlags{without: []string{"id", "delay", "due", "if_exists", "max_wait", "spread", "then", "unique_for", "zone"}}
	c := a.jsonFlag(&cobra.Command{
		Use:   "put TOPIC NAME",
		Short: "Add a schedule, or change one",
		Long: `Add a schedule, or change the one of that name, which withdraws what it made ahead and
goes on from now. One that is there as it is put stays as it is. Without --body,
standard input is the body, unchanged.

A rule of cron has five fields, or six with the second first: minute, hour, day of the
month, month, day of the week. Where the wall clock of the zone is set forward a fixed
time fires at the end of the gap; where it is set back, once.`,
		Example: `  bellhop schedule put invoices daily --cron '30 2 * * *' --zone Europe/Berlin \
    --body ''
  bellhop schedule put reports often --every 15m --overlap skip --body ''
  bellhop schedule put greetings once --at 2030-01-01T00:00:00Z --body hello`,
		Args: takes("TOPIC", "NAME"),
	})
	f.add(c)
	flags := c.Flags()
	flags.BoolVar(&f.broadcast, "broadcast", false, "each occurrence is a broadcast")
	addRule(c, &asked)
	flags.StringVar(&asked.Jitter, "jitter", "", "each occurrence is due up to so much later; such as 30s")
	flags.IntVar(&count, "count", 0, "how many occurrences are made at the most")
	flags.StringVar(&asked.Overlap, "overlap", "", "skip drops an occurrence while the one before is under way (default allow)")
	flags.StringVar(&asked.Missed, "missed", "", "of those that no carrier made in time make one, the latest, skip or all (default one)")
	flags.StringVar(&asked.Grace, "grace", "", "how late one may be until it is missed, 1m to 24h (default 1m)")
	flags.StringVar(&asked.Catchup, "catchup", "", "how old one may be that missed=all makes, up to 30d (default 1h)")
	return a.command(a.redisFlag(c), func(ctx context.Context, c *cobra.Command, args []string) error {
		if err := f.checkOne(c); err != nil {
			return wrong(err)
		}
		if c.Flags().Changed("count") {
			asked.Count = &count
		}
		s, err := a.open()
		if err != nil {
			return err
		}
		defer s.store.Close()
		return a.putSchedule(ctx, s, args[0], args[1], asked, &f)
	})
}

// putSchedule puts a schedule, and prints it.
func (a *app) putSchedule(ctx context.Context, s *session, topic, name string, asked api.ScheduleRequest, f *publishFlags) error {
	m, err := f.message(topic)
	if err != nil {
		return err
	}
	if m.Body, err = a.body(ctx, f, int(s.config.MaxBody)); err != nil {
		return err
	}
	schedule, err := asked.Schedule(name, &m)
	if err != nil {
		return err
	}
	outcome, _, err := s.store.Of(topic).PutSchedule(ctx, schedule, store.AnyRevision)
	if err != nil {
		return err
	}
	if !a.json {
		did := map[store.Outcome]string{notify.Created: "added", notify.Replaced: "changed", notify.Kept: "unchanged"}[outcome]
		terminal.Printf(a.out, "%s %s %s\n", topic, name, did)
		return nil
	}
	one, err := lookAtSchedule(ctx, s, topic, name)
	if err != nil {
		return err
	}
	return a.printJSON(api.SchedulePutReply{Outcome: string(outcome), Schedule: one.shown})
}

func (a *app) scheduleShowCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "show TOPIC NAME",
		Short: "Show a schedule, when it fires next, and what it made last",
		Long: `Show a schedule, the next five times at which it fires, and the last twenty
occurrences, with what became of their messages.`,
		Example: "  bellhop schedule show invoices daily\n  bellhop schedule show invoices daily --json | jq .state.next",
		Args:    takes("TOPIC", "NAME"),

		ValidArgsFunction: a.first(a.topicsLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		l, err := lookAtSchedule(ctx, s, args[0], args[1])
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(l.shown)
		}
		a.printRows(a.scheduleRows(&l))
		return nil
	})
}

// A lookedAt is a schedule, and how far it is at a time.
type lookedAt struct {
	store.Schedule
	state store.ScheduleState
	now   time.Time
	shown api.Schedule
}

// lookAtSchedule reads a schedule.
func lookAtSchedule(ctx context.Context, s *session, topic, name string) (l lookedAt, err error) {
	if err := checkSchedule(topic, name); err != nil {
		return l, err
	}
	shown, of, now, err := api.LookAtSchedule(ctx, s.store, topic, name)
	return lookedAt{of.Schedule, of.State, now, shown}, err
}

func checkSchedule(topic, name string) error {
	return errors.Join(record.CheckTopic(topic), store.CheckScheduleName(name))
}

// scheduleRows describes a schedule on a terminal.
func (a *app) scheduleRows(l *lookedAt) [][]string {
	shown := &l.shown
	rows := [][]string{
		{"topic", l.Topic},
		{"name", l.Name},
		{"fires", api.Fires(&l.Schedule)},
		{"overlap", string(shown.Overlap)},
		{"missed", string(shown.IfMissed)},
	}
	for _, one := range shown.Named() {
		rows = append(rows, []string{one.Name, one.Text})
	}
	rows = append(rows, []string{"made", fmt.Sprint(l.state.Made)}, []string{"missed so far", fmt.Sprint(l.state.Missed)})
	if !l.state.Paused.IsZero() {
		rows = append(rows, []string{"paused since", a.when(l.state.Paused, l.now)})
	}
	var next, last []string
	for _, at := range l.Following(&l.state, l.now, len(shown.State.Next)) {
		next = append(next, firesAt(at, l.now))
	}
	for _, one := range slices.Backward(shown.State.Last) {
		text := a.when(one.At, l.now) + ", "
		switch {
		case one.Taken:
			text += "its id was in use"
		case one.LateMs > 0:
			text += one.Became + ", claimed " + fault.Short(time.Duration(one.LateMs)*time.Millisecond) + " late"
		default:
			text += one.Became
		}
		last = append(last, text)
	}
	return append(append(rows, labelled("next", next)...), labelled("last", last)...)
}

// labelled returns rows of which the first has a label.
func labelled(label string, texts []string) (rows [][]string) {
	for _, text := range texts {
		rows = append(rows, []string{label, text})
		label = " "
	}
	return rows
}

func (a *app) scheduleListCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "list [TOPIC]",
		Short: "List the schedules of a topic, or of all",
		Long:  `List the schedules of a topic, or of all topics, when each fires, and when next.`,
		Example: `  bellhop schedule list
  bellhop schedule list invoices
  bellhop schedule list --json | jq '.[].state.next[0]'`,
		Args: takes("[TOPIC]"),

		ValidArgsFunction: a.first(a.topicsLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		topic := strings.Join(args, "")
		if len(args) > 0 {
			if err := record.CheckTopic(topic); err != nil {
				return err
			}
		}
		all, err := store.EachSchedule(ctx, s.store, topic)
		missing, err := partly(err)
		if err != nil {
			return err
		}
		now, err := s.store.Now(ctx)
		if err != nil {
			return err
		}
		return errors.Join(a.printSchedules(all, topic, now), missing)
	})
}

// printSchedules prints schedules of a topic, or of all if it is empty.
func (a *app) printSchedules(all []store.Listed, topic string, now time.Time) error {
	shown := make([]api.Schedule, len(all))
	rows := [][]string{{"TOPIC", "NAME", "FIRES", "NEXT", "MADE", "MISSED"}}
	for i := range all {
		one := &all[i]
		shown[i] = api.ScheduleOf(&one.Schedule, one.State, now)
		rows = append(rows, []string{one.Schedule.Topic, one.Schedule.Name, api.Fires(&one.Schedule), a.nextOf(one, now), fmt.Sprint(one.State.Made), fmt.Sprint(one.State.Missed)})
	}
	switch {
	case a.json:
		return a.printJSON(shown)
	case len(all) == 0:
		fmt.Fprintln(a.out, "no schedule")
		return nil
	case topic != "":
		for i := range rows {
			rows[i] = rows[i][1:]
		}
		a.printRows(rows, 0, 1, 2)
		return nil
	}
	a.printRows(rows, 0, 1, 2, 3)
	return nil
}

// nextOf says when a schedule of a list fires next.
func (a *app) nextOf(l *store.Listed, now time.Time) string {
	times := l.Schedule.Following(&l.State, now, 1)
	switch {
	case l.Err != nil:
		return "it cannot be read; put it again"
	case !l.State.Paused.IsZero():
		return "paused"
	case len(times) > 0:
		return a.when(times[0], now)
	}
	return "never"
}

// scheduleChangeCommand returns a command that changes a schedule.
func (a *app) scheduleChangeCommand(name, short, done string, change func(s store.Shard, ctx context.Context, topic, name string, revision int64) error) *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:     name + " TOPIC NAME",
		Short:   short,
		Long:    short + ".",
		Example: "  bellhop schedule " + name + " invoices daily",
		Args:    takes("TOPIC", "NAME"),

		ValidArgsFunction: a.first(a.topicsLike),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := checkSchedule(args[0], args[1]); err != nil {
			return err
		}
		if err := change(s.store.Of(args[0]), ctx, args[0], args[1], store.AnyRevision); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]string{done: args[0] + ":" + args[1]})
		}
		terminal.Printf(a.out, "%s %s %s\n", done, args[0], args[1])
		return nil
	})
}
