package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/forecast"
)

func (a *app) forecastCommand() *cobra.Command {
	call := calls.Named("forecast")
	c := a.jsonFlag(&cobra.Command{
		Use:   "forecast [PATTERN]",
		Short: "Show how many messages fall due when",
		Long: `Show how many scheduled messages fall due within each hour from now on, of a
topic, of those that match a pattern, or of all. Of all topics also broadcasts
are counted, in a column of their own. Overdue messages are due, and the carrier
did not make them ready yet; bellhop topics counts those that are ready.

RECURRING are the occurrences of schedules that are not made yet, in a light bar
behind that of messages: at most 1,000 of a schedule, and 10,000 schedules. The
next of each are messages already.

On a terminal hours and days begin in the local zone, elsewhere and in JSON in UTC.`,
		Example: `  bellhop forecast
  bellhop forecast 'order.>' --bucket 1d --count 14
  bellhop forecast order.timeout --bucket 1m --count 60
  bellhop forecast --json | jq '.counts | add'`,
		Args: takes("[PATTERN]"),
	})
	addParams(c, call, "bucket", "count")
	_ = c.RegisterFlagCompletionFunc("bucket", cobra.FixedCompletions([]string{"1m", "1h", "1d"}, cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		params, err := paramsOf(c, call, nil)
		if err != nil {
			return wrong(err)
		}
		params["topic"] = strings.Join(args, "")
		if text.IsTerminal(a.out) && !a.json {
			s.service.Zone = time.Local
		}
		f, err := ask[calls.Forecast](ctx, s, call.Name, params)
		switch {
		case err != nil:
			return err
		case a.json:
			return cmp.Or(a.printJSON(f), f.Missing.Err())
		}
		for _, line := range a.forecastLines(f, s.service.Zone) {
			fmt.Fprintln(a.out, line)
		}
		return f.Missing.Err()
	})
}

// forecastLayout is the time at which a bucket begins, to the minute.
const forecastLayout = "2006-01-02T15:04Z07:00"

// forecastLines returns a row for each bucket of a zone with a bar for its messages, and for what schedules add to them.
func (a *app) forecastLines(f calls.Forecast, zone *time.Location) []string {
	buckets := forecast.Forecast{From: f.From.In(zone), Bucket: time.Duration(f.BucketMs) * time.Millisecond}
	width := cmp.Or(text.Columns(a.out), helpWidth)
	rows := [][]string{{"FROM", "MESSAGES"}, {"overdue", fmt.Sprint(f.Overdue)}}
	for i, n := range f.Counts {
		rows = append(rows, []string{buckets.Begin(i).Format(forecastLayout), fmt.Sprint(n)})
	}
	rows = append(rows, []string{"later", fmt.Sprint(f.Later)})
	addColumn(rows, "BROADCASTS", f.Broadcasts)
	addColumn(rows, "RECURRING", f.Recurring)
	flushRight(rows)
	lines := text.LayOut(rows, 0)
	room := width - text.Total(text.Widths(rows)) - text.Gap
	comes := slices.Clone(f.Counts)
	for i, n := range f.Recurring {
		comes[i] += n
	}
	most := slices.Max(comes)
	for i, n := range comes {
		drawn := bar(f.Counts[i], most, room)
		if f.Recurring != nil && f.Recurring[i] > 0 {
			drawn += strings.Repeat("░", max(len([]rune(bar(n, most, room)))-len([]rune(drawn)), 0))
		}
		lines[i+2] = strings.TrimRight(fmt.Sprintf("%-*s%s", width-room, lines[i+2], drawn), " ")
	}
	return append(lines, recurringCut(f, zone)...)
}

// addColumn adds a column of numbers of the buckets to the rows of a forecast, if it has them.
func addColumn(rows [][]string, head string, counts []int64) {
	if counts == nil {
		return
	}
	cells := []string{head, ""}
	for _, n := range counts {
		cells = append(cells, fmt.Sprint(n))
	}
	for i, cell := range append(cells, "") {
		rows[i] = append(rows[i], cell)
	}
}

// recurringCut says until when all is counted that recurs, if that is not the end.
func recurringCut(f calls.Forecast, zone *time.Location) []string {
	if f.RecurringUntil.IsZero() {
		return nil
	}
	why := "some have more than are counted"
	if f.SchedulesLeft {
		why = fmt.Sprintf("there are more than the %d schedules that are counted", forecast.MaxSchedules)
	}
	return []string{fmt.Sprintf("recurring has all until %s: %s", f.RecurringUntil.In(zone).Format(time.RFC3339), why)}
}

// flushRight pads the cells of all columns but the first, so that numbers end below each other.
func flushRight(rows [][]string) {
	for i, w := range text.Widths(rows) {
		for _, row := range rows {
			if i > 0 {
				row[i] = fmt.Sprintf("%*s", w, row[i])
			}
		}
	}
}

// bar returns a bar for n, of a width where the most has the whole. What is not zero has a bar.
func bar(n, most int64, width int) string {
	if n == 0 || width < 1 {
		return ""
	}
	eighths := max(int(float64(n)/float64(most)*float64(8*width)), 1)
	return strings.Repeat("█", eighths/8) + []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}[eighths%8]
}
