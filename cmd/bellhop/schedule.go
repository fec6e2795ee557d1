package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
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
		a.scheduleChangeCommand("pause", "Pause a schedule; what it made ahead is withdrawn", "paused"),
		a.scheduleChangeCommand("resume", "Have a schedule go on from now", "resumed"),
		a.scheduleChangeCommand("delete", "Delete a schedule; what it made ahead is withdrawn", "deleted"),
	)
}

func (a *app) schedulePutCommand() *cobra.Command {
	f := publishFlags{without: calls.NotOfSchedule}
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
	c.Flags().BoolVar(&f.broadcast, "broadcast", false, "each occurrence is a broadcast")
	rule := addFields(c, fields.In[store.Schedule]())
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if err := errors.Join(f.checkOne(c), checkFields(rule)); err != nil {
			return wrong(err)
		}
		schedule := store.Schedule{Topic: args[0], Name: args[1]}
		m, bad := f.message(args[0])
		faults, _ := setFields(rule, &schedule)
		if err := errors.Join(append(faults, bad)...); err != nil {
			return err
		}
		body, err := a.body(ctx, &f, int(s.config.MaxBody))
		if err != nil {
			return err
		}
		m.Body = body
		fields.Fill(&schedule.Message, &m)
		outcome, _, err := s.store.Of(args[0]).PutSchedule(ctx, &schedule, store.AnyRevision)
		switch {
		case err != nil:
			return err
		case a.json:
			shown, err := ask[calls.Schedule](ctx, s, "showSchedule", map[string]string{"topic": args[0], "name": args[1]})
			if err != nil {
				return err
			}
			return a.printJSON(calls.SchedulePutReply{Outcome: string(outcome), Schedule: shown})
		}
		did := map[store.Outcome]string{notify.Created: "added", notify.Replaced: "changed", notify.Kept: "unchanged"}[outcome]
		terminal.Printf(a.out, "%s %s %s\n", args[0], args[1], did)
		return nil
	})
}

func (a *app) scheduleShowCommand() *cobra.Command {
	return callCommand(a, "showSchedule", &cobra.Command{
		Use:   "show TOPIC NAME",
		Short: "Show a schedule, when it fires next, and what it made last",
		Long: `Show a schedule, the next five times at which it fires, and the last twenty
occurrences, with what became of their messages.`,
		Example: "  bellhop schedule show invoices daily\n  bellhop schedule show invoices daily --json | jq .state.next",
	}, func(ctx context.Context, s *session, _ []string, shown calls.Schedule) error {
		a.printRows(a.scheduleRows(&shown, a.now(ctx, s)))
		return nil
	})
}

// scheduleRows describes a schedule on a terminal.
func (a *app) scheduleRows(shown *calls.Schedule, now time.Time) [][]string {
	rows := [][]string{
		{"topic", shown.Topic},
		{"name", shown.Name},
		{"fires", shown.Fires()},
		{"overlap", string(shown.Overlap)},
		{"missed", string(shown.IfMissed)},
	}
	for _, one := range shown.Named() {
		rows = append(rows, []string{one.Name, one.Text})
	}
	rows = append(rows, []string{"made", fmt.Sprint(shown.State.Made)}, []string{"missed so far", fmt.Sprint(shown.State.Missed)})
	if shown.State.Paused != nil {
		rows = append(rows, []string{"paused since", a.when(*shown.State.Paused, now)})
	}
	var last []string
	for _, one := range slices.Backward(shown.State.Last) {
		text := a.when(one.At, now) + ", "
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
	return slices.Concat(rows, labelled("next", firesAt(shown.State.Next, shown.Zone, now)), labelled("last", last))
}

// labelled returns rows of which the first has a label.
func labelled(label string, texts []string) (rows [][]string) {
	for _, text := range texts {
		rows = append(rows, []string{label, text})
		label = " "
	}
	return rows
}

// firesAt returns times at which a schedule fires, in its zone.
func firesAt(times []time.Time, zone string, now time.Time) (texts []string) {
	in, err := calendar.Zone(zone)
	for _, at := range times {
		if err == nil {
			at = at.In(in)
		}
		texts = append(texts, at.Format(calls.InZone)+" ("+text.Relative(at, now)+")")
	}
	return texts
}

func (a *app) scheduleListCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "list [TOPIC]",
		Short: "List the schedules of a topic, or of all",
		Long:  `List the schedules of a topic, or of all topics, when each fires, and when next.`,
		Example: `  bellhop schedule list
  bellhop schedule list invoices
  bellhop schedule list --json | jq '.schedules[].state.next[0]'`,
		Args: takes("[TOPIC]"),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		topic := strings.Join(args, "")
		if len(args) > 0 {
			if err := record.CheckTopic(topic); err != nil {
				return err
			}
		}
		listed, err := store.EachSchedule(ctx, s.store, topic)
		missing, err := partly(err)
		if err != nil {
			return err
		}
		now, err := s.store.Now(ctx)
		if err != nil {
			return err
		}
		all := calls.Schedules{Schedules: make([]calls.Schedule, len(listed))}
		for i := range listed {
			all.Schedules[i] = calls.ListedOf(&listed[i], now)
		}
		if a.json {
			return cmp.Or(a.printJSON(all), missing)
		}
		a.printSchedules(all.Schedules, topic != "", now)
		return missing
	})
}

// printSchedules prints schedules, of one topic without that.
func (a *app) printSchedules(all []calls.Schedule, ofOne bool, now time.Time) {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no schedule")
		return
	}
	rows, from := [][]string{{"TOPIC", "NAME", "FIRES", "NEXT", "MADE", "MISSED"}}, 0
	for i := range all {
		one := &all[i]
		rows = append(rows, []string{one.Topic, one.Name, one.Fires(), a.nextOf(one, now), fmt.Sprint(one.State.Made), fmt.Sprint(one.State.Missed)})
	}
	if ofOne {
		from = 1
	}
	for i := range rows {
		rows[i] = rows[i][from:]
	}
	a.printRows(rows, 0, 1, 2, 3-from)
}

// nextOf says when a schedule of a list fires next.
func (a *app) nextOf(shown *calls.Schedule, now time.Time) string {
	switch {
	case shown.Error != "":
		return "it cannot be read; put it again"
	case shown.State.Paused != nil:
		return "paused"
	case len(shown.State.Next) > 0:
		return a.when(shown.State.Next[0], now)
	}
	return "never"
}

// scheduleChangeCommand returns a command that changes a schedule.
func (a *app) scheduleChangeCommand(name, short, done string) *cobra.Command {
	return callCommand(a, name+"Schedule", &cobra.Command{
		Use:     name + " TOPIC NAME",
		Short:   short,
		Long:    short + ".",
		Example: "  bellhop schedule " + name + " invoices daily",
	}, func(_ context.Context, _ *session, args []string, _ any) error {
		terminal.Printf(a.out, "%s %s %s\n", done, args[0], args[1])
		return nil
	})
}
