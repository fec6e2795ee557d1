package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
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
  bellhop schedule list mail --json | jq -c '.schedules[]' \
    > mail.jsonl`,
		Args: takes("FILE"),
	})
	c.Flags().BoolVar(&prune, "prune", false, "delete other schedules of the topics that FILE names")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and print what would be done")
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		wanted, err := a.readSchedules(ctx, args[0], int(s.config.MaxBody))
		if err != nil {
			return err
		}
		apply := store.Apply{DryRun: dryRun}
		for _, l := range wanted {
			if prune {
				apply.Prune = append(apply.Prune, l.Topic)
			}
			if l.Schedule != nil {
				apply.Schedules = append(apply.Schedules, l.Schedule)
			}
		}
		done, err := s.store.ApplySchedules(ctx, apply)
		switch {
		case errors.Is(err, notify.ErrInvalid) && len(done) == 0:
			return err
		case err != nil:
			err = fmt.Errorf("%w\nwhat was done is printed; apply the file again", err)
		}
		return errors.Join(a.printApplied(&calls.SchedulesApplied{DryRun: dryRun, Schedules: append([]store.Applied{}, done...)}), err)
	})
}

// readSchedules reads the lines of a file, "-" for standard input. The error joins a Fault for each thing that is wrong in any of them.
func (a *app) readSchedules(ctx context.Context, path string, maxBody int) ([]calls.ScheduleLine, error) {
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
	all     []calls.ScheduleLine
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
	l, err := calls.DecodeScheduleLine(text)
	if err != nil {
		return err
	}
	if l.Schedule != nil {
		member := l.Topic + ":" + l.Schedule.Name
		if before, twice := r.at[member]; twice {
			return fault.New("name", "name %s: line %d has it, too; give each schedule of a topic once", l.Schedule.Name, before)
		}
		r.at[member] = n
		err = calls.CheckBody(l.Schedule, r.maxBody)
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

// printApplied prints what was done.
func (a *app) printApplied(sum *calls.SchedulesApplied) error {
	if a.json {
		return a.printJSON(sum)
	}
	n := make(map[string]int)
	words := map[string]string{string(notify.Created): "added", string(notify.Replaced): "changed", string(notify.Kept): "unchanged", store.AppliedDeleted: "deleted"}
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
