package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bellhopd/bellhop/notify"
)

func (a *app) topicsCommand() *cobra.Command {
	var watch bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "topics",
		Short: "Count the messages of each topic",
		Long: `Count the messages of each topic: scheduled, ready, leased and dead ones, and
the subscribers that wait. Overdue is for how long the oldest ready message is
due. Late is how late the last message was claimed, or that the topic is paused.
Bcast are the broadcasts that wait for their due time; those that were sent and
are kept are in the log. With --watch, each second, and what is published,
acknowledged and broadcast per second.`,
		Example: `  bellhop topics
  bellhop topics --watch
  bellhop topics --json | jq '.[] | select(.dead > 0)'`,
		Args: takes(),
	})
	c.Flags().BoolVar(&watch, "watch", false, "count again each second, until Ctrl-C")
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		if watch {
			return a.watchTopics(ctx, s)
		}
		counts, err := s.pub.Topics(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(topicsJSON(counts))
		}
		if len(counts) == 0 {
			fmt.Fprintln(a.out, "no topic was published to yet")
			return nil
		}
		return table(a.out, func(w io.Writer) { writeTopics(w, counts, nil) })
	})
}

// topicJSON is a topic as it is printed for programs.
type topicJSON struct {
	notify.Counts
	OverdueMs  int64   `json:"overdue_ms"`
	LatenessMs float64 `json:"lateness_ms"` // to the microsecond
}

func topicsJSON(counts []notify.Counts) []topicJSON {
	all := make([]topicJSON, len(counts))
	for i, c := range counts {
		all[i] = topicJSON{c, c.Overdue.Milliseconds(), msOf(c.Lateness)}
	}
	return all
}

// rates are what happened to a topic per second.
type rates struct{ published, acked, sent float64 }

// writeTopics writes the table of topics; without rates it has no columns for them.
func writeTopics(w io.Writer, counts []notify.Counts, per map[string]rates) {
	fmt.Fprint(w, "TOPIC\tSCHED\tREADY\tLEASED\tDEAD\tWAITING\tOVERDUE\tLATE\tBCAST\tLOG")
	if per != nil {
		fmt.Fprint(w, "\tPUB/S\tACK/S\tSENT/S")
	}
	fmt.Fprintln(w)
	for _, c := range counts {
		overdue := "-"
		if c.Ready > 0 {
			overdue = rough(c.Overdue)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d", c.Topic, c.Scheduled, c.Ready, c.Leased, c.Dead, c.Waiting, overdue, late(c), c.Broadcasts, c.Log)
		if r := per[c.Topic]; per != nil {
			fmt.Fprintf(w, "\t%.0f\t%.0f\t%.0f", r.published, r.acked, r.sent)
		}
		fmt.Fprintln(w)
	}
}

// late says how late the last claim of a topic was, or why there is none now.
func late(c notify.Counts) string {
	switch {
	case c.Paused:
		return "paused"
	case c.Lateness == 0:
		return "-"
	}
	return lateness(c.Lateness)
}

// view is the live view of topics.
type view struct {
	before map[string]notify.Counts
	taken  time.Time
}

// rates returns what happened since the counts before these.
func (v *view) rates(counts []notify.Counts, now time.Time) map[string]rates {
	per := make(map[string]rates, len(counts))
	next := make(map[string]notify.Counts, len(counts))
	seconds := now.Sub(v.taken).Seconds()
	for _, c := range counts {
		next[c.Topic] = c
		if before, known := v.before[c.Topic]; known {
			per[c.Topic] = rates{
				float64(c.Published-before.Published) / seconds, float64(c.Acked-before.Acked) / seconds, float64(c.Sent-before.Sent) / seconds,
			}
		}
	}
	v.before, v.taken = next, now
	return per
}

// watchTopics prints the topics each second until ctx ends: in place on a
// terminal, one below the other elsewhere. A Redis that is away does not end it.
func (a *app) watchTopics(ctx context.Context, s *session) error {
	var v view
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	if !a.json && isTerminal(a.out) {
		fmt.Fprint(a.out, "\x1b[2J")
	}
	for {
		counts, err := s.pub.Topics(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !notify.Away(err):
			return err
		case err != nil && (a.json || !isTerminal(a.out)):
			s.log.Error("cannot count, trying on", "error", err)
		case a.json:
			err = a.printJSON(topicsJSON(counts))
		default:
			err = a.draw(s, counts, v.rates(counts, time.Now()), err)
		}
		if err != nil && !notify.Away(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// draw prints the topics, or why they could not be counted.
func (a *app) draw(s *session, counts []notify.Counts, per map[string]rates, fault error) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s  prefix %s  %d topics\n\n", stamp(time.Now()), s.store.Where(), s.store.Keys().Prefix(), len(counts))
	if fault != nil {
		fmt.Fprintln(&b, fault)
	} else if err := table(&b, func(w io.Writer) { writeTopics(w, counts, per) }); err != nil {
		return err
	}
	screen := b.Bytes()
	if isTerminal(a.out) {
		screen = inPlace(screen, a.out.(*os.File))
	}
	if _, err := a.out.Write(screen); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// inPlace makes lines replace what is on a terminal, and cuts what does not fit.
func inPlace(text []byte, terminal *os.File) []byte {
	rows := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err == nil && height > 2 && len(rows) > height-1 {
		more := fmt.Appendf(nil, "… and %d more", len(rows)-height+2)
		rows = append(rows[:height-2:height-2], more)
	}
	screen := []byte("\x1b[H")
	for _, row := range rows {
		if runes := []rune(string(row)); err == nil && len(runes) > width {
			row = []byte(string(runes[:width]))
		}
		screen = append(append(screen, row...), "\x1b[K\n"...)
	}
	return append(screen, "\x1b[J"...)
}
