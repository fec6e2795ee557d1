package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func (a *app) scheduleApplyCommand() *cobra.Command {
	var prune, dryRun bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "apply FILE",
		Short: "Put all schedules of a file",
		Long: `Put the schedules of FILE, or of standard input for "-". Each line is a JSON object
with topic, name, and the fields of PUT /v1/topics/TOPIC/schedules/NAME; empty lines
are skipped. All lines are judged before anything changes. A schedule that is there
as it is put stays as it is, so that any number of processes may apply one file.

With --prune each topic that FILE names has the schedules of FILE, and no others:
those are deleted. Schedules of topics that FILE does not name stay. A line with a
topic alone names a topic without schedules. What was paused stays paused.

FILE may also have what show --json prints, the elements of list --json, and those
lines of bellhop export that have "kind":"schedule"; how far they are is ignored.`,
		Example: `  echo '{"topic":"mail","name":"digest","every":"24h","body":""}' > all.jsonl
  bellhop schedule apply all.jsonl --prune --dry-run
  bellhop schedule list mail --json | jq -c '.[]' > mail.jsonl`,
		Args: takes("FILE"),
	})
	c.Flags().BoolVar(&prune, "prune", false, "delete other schedules of the topics that FILE names")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and print what would be done")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		wanted, err := a.readSchedules(ctx, args[0], int(s.config.MaxBody))
		if err != nil {
			return err
		}
		p := applying{store: s.store, wanted: wanted, sum: applied{DryRun: dryRun, Schedules: []appliedSchedule{}}}
		if err := p.checkOver(ctx); err != nil {
			return err
		}
		err = p.putAll(ctx)
		if err == nil && prune {
			err = p.prune(ctx, s)
		}
		return errors.Join(a.printApplied(&p.sum), err)
	})
}

// readSchedules reads the lines of a file, "-" for standard input. The error joins a Fault for each thing that is wrong in any of them.
func (a *app) readSchedules(ctx context.Context, path string, maxBody int) ([]api.ScheduleLine, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if text.IsTerminal(a.in) {
		fmt.Fprintln(a.err, "bellhop: reading schedules from the terminal, a line of JSON each; Ctrl-D ends the input")
	}
	r := scheduleReader{in: bufio.NewReader(in), maxBody: maxBody, at: make(map[string]int)}
	done := make(chan error, 1)
	go func() { done <- r.run() }() // a read cannot be interrupted
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		return r.all, err
	}
}

// A scheduleReader reads lines.
type scheduleReader struct {
	in      *bufio.Reader
	maxBody int
	all     []api.ScheduleLine
	at      map[string]int // lines of schedules, by TOPIC:NAME
	faults  []error
	bad     int // lines
}

// run reads all lines.
func (r *scheduleReader) run() error {
	most := 6*r.maxBody + 64<<10 // JSON may encode a byte as six
	for n := 1; ; n++ {
		raw, read, err := readLine(r.in, most)
		switch text := bytes.TrimSpace(raw); {
		case read > int64(most):
			r.refuse(n, fault.New("line", "line: it is longer than %d bytes", most))
		case len(text) > 0:
			r.refuse(n, r.add(n, text))
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read line %d: %w", n, err)
		case err == nil:
		case r.bad > 0:
			return errors.Join(append(r.faults, fault.New("file", "file: %d lines are wrong, and nothing was changed", r.bad))...)
		default:
			return nil
		}
	}
}

// add adds a line.
func (r *scheduleReader) add(n int, text []byte) error {
	l, err := api.DecodeScheduleLine(text)
	if err != nil {
		return err
	}
	if l.Schedule != nil {
		member := l.Topic + ":" + l.Schedule.Name
		if before, twice := r.at[member]; twice {
			return fault.New("name", "name %s: line %d has it, too; give each schedule of a topic once", l.Schedule.Name, before)
		}
		r.at[member] = n
		err = checkBody(l.Schedule, r.maxBody)
	}
	r.all = append(r.all, l)
	return err
}

// refuse notes what is wrong with a line.
func (r *scheduleReader) refuse(n int, err error) {
	if err == nil {
		return
	}
	if r.bad++; r.bad > listedFaults {
		return
	}
	for _, f := range fault.All(err) {
		r.faults = append(r.faults, &notify.Fault{Field: f.Field, Err: fmt.Errorf("line %d: %w", n, f)})
	}
}

// applying is one call of apply.
type applying struct {
	store  *notify.Store
	wanted []api.ScheduleLine
	sum    applied
}

// applied is what was done, or would be.
type applied struct {
	DryRun    bool              `json:"dry_run"`
	Schedules []appliedSchedule `json:"schedules"`
}

// An appliedSchedule is what was done to one.
type appliedSchedule struct {
	Topic   string `json:"topic"`
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // created, replaced, kept or deleted
}

const outcomeDeleted = "deleted"

// note notes what was done.
func (p *applying) note(topic, name, outcome string) {
	p.sum.Schedules = append(p.sum.Schedules, appliedSchedule{topic, name, outcome})
}

// checkOver refuses schedules that would never fire. One that is there already with these times has served, and may be changed but for them.
func (p *applying) checkOver(ctx context.Context) error {
	now, err := p.store.Now(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, l := range p.wanted {
		if l.Schedule == nil {
			continue
		}
		over := l.Schedule.CheckOver(now)
		if over == nil {
			continue
		}
		switch before, _, _, err := p.store.Of(l.Topic).Schedule(ctx, l.Topic, l.Schedule.Name); {
		case err == nil && l.Schedule.HasTimesOf(&before):
		case notify.Retryable(err):
			return err
		default:
			for _, f := range fault.All(over) {
				faults = append(faults, &notify.Fault{Field: f.Field, Err: fmt.Errorf("%s %s: %w", l.Topic, l.Schedule.Name, f)})
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(append(faults[:min(len(faults), listedFaults)], fault.New("file", "file: %d schedules would never fire, and nothing was changed", len(faults)))...)
	}
	return nil
}

// putAll puts all schedules.
func (p *applying) putAll(ctx context.Context) error {
	for _, l := range p.wanted {
		if l.Schedule == nil {
			continue
		}
		outcome, err := p.put(ctx, l.Schedule)
		if err != nil {
			return fmt.Errorf("%w\nwhat was done is printed; apply the file again", err)
		}
		p.note(l.Topic, l.Schedule.Name, string(outcome))
	}
	return nil
}

// put puts a schedule, or tells what that would do.
func (p *applying) put(ctx context.Context, s *store.Schedule) (store.Outcome, error) {
	shard := p.store.Of(s.Topic)
	if !p.sum.DryRun {
		outcome, _, err := shard.PutSchedule(ctx, s, store.AnyRevision)
		return outcome, err
	}
	before, state, _, err := shard.Schedule(ctx, s.Topic, s.Name)
	switch {
	case errors.Is(err, store.ErrNoSchedule):
		return store.OutcomeCreated, nil
	case err != nil && state.Revision == 0:
		return store.OutcomeRefused, err
	case err == nil && s.Same(&before):
		return store.OutcomeKept, nil
	}
	return store.OutcomeReplaced, nil // also of one that cannot be read
}

// prune deletes the schedules of the topics of the file that it has not. One that is changed meanwhile stays.
func (p *applying) prune(ctx context.Context, s *session) error {
	wanted, topics := make(map[string]bool), []string{}
	for _, l := range p.wanted {
		topics = append(topics, l.Topic)
		if l.Schedule != nil {
			wanted[l.Topic+":"+l.Schedule.Name] = true
		}
	}
	slices.Sort(topics)
	for _, topic := range slices.Compact(topics) {
		all, err := allSchedules(ctx, s, topic)
		for i := 0; i < len(all) && err == nil; i++ {
			if !wanted[topic+":"+all[i].Schedule.Name] {
				err = p.delete(ctx, &all[i])
			}
		}
		if err != nil {
			return fmt.Errorf("%w\nwhat was done is printed; apply the file again", err)
		}
	}
	return nil
}

// delete deletes a schedule as it was read. Another process may have done so.
func (p *applying) delete(ctx context.Context, l *store.Listed) error {
	topic, name := l.Schedule.Topic, l.Schedule.Name
	if !p.sum.DryRun {
		err := p.store.Of(topic).DeleteSchedule(ctx, topic, name, l.State.Revision)
		if errors.Is(err, store.ErrNoSchedule) {
			return nil
		} else if err != nil {
			return err
		}
	}
	p.note(topic, name, outcomeDeleted)
	return nil
}

// printApplied prints what was done.
func (a *app) printApplied(sum *applied) error {
	if a.json {
		return a.printJSON(sum)
	}
	n := make(map[string]int)
	words := map[string]string{string(notify.Created): "added", string(notify.Replaced): "changed", string(notify.Kept): "unchanged", outcomeDeleted: "deleted"}
	for _, one := range sum.Schedules {
		n[words[one.Outcome]]++
		terminal.Printf(a.out, "%s %s %s\n", one.Topic, one.Name, words[one.Outcome])
	}
	dry := ""
	if sum.DryRun {
		dry = "; this was a dry run, and nothing was changed"
	}
	terminal.Printf(a.out, "added %d, changed %d, unchanged %d, deleted %d%s\n", n["added"], n["changed"], n["unchanged"], n["deleted"], dry)
	return nil
}
