package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) topicsCommand() *cobra.Command {
	var f choice
	var shardOf string
	c := a.jsonFlag(&cobra.Command{
		Use:   "topics [PATTERN]",
		Short: "Count the messages of each topic, or show and change settings",
		Long: `Count the messages of each topic, or of those that match a pattern: scheduled,
ready, leased and dead ones, those that are blocked by others of their keys, if
there are any, and waiting subscribers. Overdue is how long the oldest message
that is ready, or that no carrier made ready, has been due. Leased is followed by the topic's concurrency, if it has
one. Held is how long a worker that told its name has had one of these. Late is how late the last message was claimed, or that
the topic is paused. Bcast is the number of scheduled broadcasts; Log is that of sent
ones that are kept.

--sort is name, or overdue, dead, ready or rate, highest first. Rate counts twice, a
second apart, and shows how many messages are published, acknowledged and broadcast
per second. --bad shows only topics that are overdue for a minute, are paused, or have
dead letters. If there are very many topics, --bad, --sort overdue and --sort rate,
without a pattern, count only the worst topics and the first ones by name; the last
line covers all.

--shard TOPIC shows instead in which shard a topic is, where that is, and the
channels of Redis that tell programs of any language of the topic.

To name a topic set or settings, put -- before it.

On a terminal, columns that do not fit are left out and named, and long names are
shortened in the middle with …; elsewhere, and with --json, nothing is left out.`,
		Example: `  bellhop topics
  bellhop topics 'order.>' --sort ready --limit 20
  bellhop topics --bad
  watch bellhop topics --sort overdue
  bellhop topics --json | jq '.topics[] | select(.dead > 0)'
  bellhop topics set order.timeout attempts=5
  bellhop topics settings order.timeout`,
		Args: takes("[PATTERN]"),
	})
	c.AddCommand(a.topicsSetCommand(), a.topicsSettingsCommand())
	flags := c.Flags()
	flags.StringVar(&f.sort, "sort", "", "order: name, overdue, dead, ready or rate (name; with --bad overdue)")
	flags.IntVar(&f.limit, "limit", 0, "show at most so many topics")
	flags.BoolVar(&f.bad, "bad", false, "show only topics that are in trouble")
	flags.StringVar(&shardOf, "shard", "", "show the shard of this `TOPIC`, and its channels")
	for _, other := range []string{"sort", "limit", "bad"} {
		c.MarkFlagsMutuallyExclusive("shard", other)
	}
	_ = c.RegisterFlagCompletionFunc("shard", a.found(a.topicsLike)) // fails for no flag
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		if shardOf != "" && len(args) > 0 {
			return wrong(misused("shard", "unexpected argument %q: --shard names the topic", args[0]))
		}
		if err := f.check(args); err != nil {
			return err
		}
		if shardOf != "" {
			return a.printTopicShard(ctx, s, shardOf)
		}
		return a.topics(ctx, s, f)
	})
}

// topics prints the topics of a choice.
func (a *app) topics(ctx context.Context, s *session, f choice) error {
	shown, err := a.count(ctx, s, f)
	if err == nil {
		err = shown.addWaiting(ctx, s, f)
	}
	if err == nil && f.sort == "rate" {
		err = shown.rate(ctx, s, f)
	}
	if err == nil {
		err = shown.hold(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := a.printTopics(shown, f); err != nil {
		return err
	}
	if !a.json {
		a.printVacancy(ctx, s)
	}
	return shown.missing
}

// printVacancy says on stderr that nothing becomes due for want of a carrier, and since when.
// Where that cannot be read it says nothing.
func (a *app) printVacancy(ctx context.Context, s *session) {
	all, _ := store.Gather(ctx, s.store, carrier.Look)
	var oldest time.Time
	for _, status := range all {
		if status.Name == "" && !status.Next.IsZero() && (oldest.IsZero() || status.Next.Before(oldest)) {
			oldest = status.Next
		}
	}
	if oldest.IsZero() {
		return
	}
	why := "no carrier is elected, so what is scheduled does not become ready"
	if waits := a.now(ctx, s).Sub(oldest); waits > 0 {
		why += "; the oldest has been due for " + text.Rough(waits)
	}
	terminal.Printf(a.err, "bellhop: %s; start one: bellhop serve\n", why)
}

// printEnds prints of the topics whose pause has an end when that is.
func (a *app) printEnds(rows []topicRow) {
	for _, r := range rows {
		if !r.PausedUntil.IsZero() {
			terminal.Printf(a.out, "%s is paused until %s\n", r.Topic, a.stamp(r.PausedUntil))
		}
	}
}

// printTopics prints topics, and the totals of all.
func (a *app) printTopics(shown shownTopics, f choice) error {
	switch {
	case a.json:
		return a.printJSON(topicsJSON(shown))
	case shown.topics == 0 && len(f.patterns) == 0:
		fmt.Fprintln(a.out, "no topic was published to yet")
	case len(shown.rows) == 0 && f.bad && shown.topics > 0:
		fmt.Fprintf(a.out, "no topic is overdue, paused, or has dead letters\n\n%s\n", shown.sum())
	case len(shown.rows) == 0:
		fmt.Fprintln(a.out, "no topic")
	default:
		width := text.Columns(a.out)
		lines, left := topicTable(shown.rows, width)
		fmt.Fprintf(a.out, "%s\n\n%s\n", strings.Join(lines, "\n"), strings.Join(text.Wrap(shown.sum()+left, width), "\n"))
		a.printEnds(shown.rows)
	}
	return nil
}

func topicsJSON(shown shownTopics) calls.Topics {
	missing, _ := api.MissingOf(shown.missing) // it is nothing else
	all := calls.Topics{Topics: make([]calls.Topic, len(shown.rows)), Missing: missing}
	for i, r := range shown.rows {
		all.Topics[i] = calls.TopicOf(r.Counts)
	}
	return all
}

// rates are a topic's changes per second.
type rates struct{ published, acked, sent float64 }

func (r *rates) sum() float64 {
	if r == nil {
		return 0
	}
	return r.published + r.acked + r.sent
}

// topicColumns are the columns of the table of topics. If they do not fit, the one of the highest rank is left out first.
var topicColumns = []struct {
	head string
	rank int
	cell func(r topicRow) string
}{
	{"TOPIC", 0, func(r topicRow) string { return r.Topic }},
	{"SCHED", 3, func(r topicRow) string { return strconv.FormatInt(r.Scheduled, 10) }},
	{"READY", 1, func(r topicRow) string { return strconv.FormatInt(r.Ready, 10) }},
	{"BLOCKED", 1, func(r topicRow) string { return strconv.FormatInt(r.Blocked, 10) }},
	{"LEASED", 6, func(r topicRow) string {
		if r.Concurrency > 0 {
			return fmt.Sprintf("%d/%d", r.Leased, r.Concurrency)
		}
		return strconv.FormatInt(r.Leased, 10)
	}},
	{"HELD", 7, func(r topicRow) string {
		if r.OldestLease == 0 {
			return "-"
		}
		return text.Rough(r.OldestLease)
	}},
	{"DEAD", 1, func(r topicRow) string { return strconv.FormatInt(r.Dead, 10) }},
	{"WAITING", 2, func(r topicRow) string { return strconv.FormatInt(r.Waiting, 10) }},
	{"OVERDUE", 1, func(r topicRow) string { return overdue(r.Counts) }},
	{"LATE", 4, func(r topicRow) string { return late(r.Counts) }},
	{"BCAST", 8, func(r topicRow) string { return strconv.FormatInt(r.Broadcasts, 10) }},
	{"LOG", 9, func(r topicRow) string { return strconv.FormatInt(r.Log, 10) }},
	{"PUB/S", 5, func(r topicRow) string { return perSecond(r.per, func(p rates) float64 { return p.published }) }},
	{"ACK/S", 5, func(r topicRow) string { return perSecond(r.per, func(p rates) float64 { return p.acked }) }},
	{"SENT/S", 7, func(r topicRow) string { return perSecond(r.per, func(p rates) float64 { return p.sent }) }},
}

// isBlocked reports whether messages of the topic are blocked.
func (r topicRow) isBlocked() bool { return r.Blocked > 0 }

// isHeld reports whether a worker that told its name has a message of the topic.
func (r topicRow) isHeld() bool { return r.OldestLease > 0 }

// firstRate is the first column of the rates, which are not always known.
const firstRate = 12

// leastTopic is the width of a name for which other columns are left out.
const leastTopic = 16

// topicTable returns the table of topics for a terminal of some width, 0 for none, and a note of the columns left out.
func topicTable(rows []topicRow, width int) (lines []string, left string) {
	kept := make([]int, len(topicColumns))
	for i := range kept {
		kept[i] = i
	}
	if rows[0].per == nil {
		kept = kept[:firstRate]
	}
	for head, has := range map[string]func(topicRow) bool{"BLOCKED": topicRow.isBlocked, "HELD": topicRow.isHeld} {
		if !slices.ContainsFunc(rows, has) {
			kept = slices.DeleteFunc(kept, func(i int) bool { return topicColumns[i].head == head })
		}
	}
	cells, out := cellsOf(rows, kept), []string{}
	for width > 0 && len(kept) > 2 {
		widths := text.Widths(cells)
		widths[0] = min(widths[0], leastTopic)
		if text.Total(widths) <= width {
			break
		}
		last := slices.MaxFunc(kept, func(a, b int) int { return cmp.Compare(topicColumns[a].rank, topicColumns[b].rank) })
		kept = slices.DeleteFunc(kept, func(i int) bool { return i == last })
		cells, out = cellsOf(rows, kept), append(out, topicColumns[last].head)
	}
	if len(out) > 0 {
		left = fmt.Sprintf("; no room for %s", strings.Join(out, ", "))
	}
	return text.LayOut(cells, width, 0), left
}

// cellsOf returns the cells of some columns, below a row of their heads.
func cellsOf(rows []topicRow, columns []int) [][]string {
	cells := make([][]string, len(rows)+1)
	for _, i := range columns {
		cells[0] = append(cells[0], topicColumns[i].head)
		for n, row := range rows {
			cells[n+1] = append(cells[n+1], topicColumns[i].cell(row))
		}
	}
	return cells
}

// overdue returns how long the oldest message of a topic that is ready, or that no carrier made ready, has been due.
func overdue(c notify.Counts) string {
	if c.Ready == 0 && c.Behind < behindAfter {
		return "-"
	}
	return text.Rough(max(c.Overdue, c.Behind))
}

func perSecond(per *rates, of func(rates) float64) string {
	if per == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", of(*per))
}

// late returns how late the last claim of a topic was, or that the topic is paused.
func late(c notify.Counts) string {
	switch {
	case c.Paused:
		return "paused"
	case c.Lateness == 0:
		return "-"
	}
	return text.Lateness(c.Lateness)
}
