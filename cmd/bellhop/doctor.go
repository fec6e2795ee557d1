package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/doctor"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	repair, yes, quick, check bool
	accept                    []string
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := a.jsonFlag(&cobra.Command{
		Use:   "doctor",
		Short: "Examine Redis and the service on it, and repair what is out of place",
		Long: `Examine Redis: can it be reached, is it new enough, does it keep its data, does it
evict keys, may this user do all that is needed, how far off is its clock, how
long does a ring take. Examine the service: does a carrier live, would another one
take over, is anything overdue, and does anybody wait for it, what died in the last
day, what is paused, what is set for all topics, which listeners are behind. What has to be tried is tried
under a prefix of its own, and removed.

Last, all keys are looked at for what is out of place, which takes half a minute
for a million messages; --quick leaves that out. Messages are out of place where
keys were removed, restored in part or changed by another program: a record that
stands in no place would never be delivered. It is told what would be done about
each. With --repair it is done, after a question, or without one with --yes. It can
be done while everything works. What could still be delivered is; what has no
record is removed.

With --check, for a timer, only what is not ok is printed, and all keys are not
looked at. Warnings of checks that --accept names are not told, and do not count.

Exits with 1 if anything fails and is not repaired; with --check with 3 if there
are only warnings.`,
		Example: `  bellhop doctor
  bellhop doctor --repair
  bellhop doctor --check --accept standby,memory
  bellhop doctor --json | jq '.[] | select(.verdict != "ok")'`,
		Args: takes(),
	})
	flags := c.Flags()
	flags.BoolVar(&f.repair, "repair", false, "repair what is out of place")
	flags.BoolVar(&f.yes, "yes", false, "with --repair: do not ask")
	flags.BoolVar(&f.quick, "quick", false, "do not look at all keys")
	flags.BoolVar(&f.check, "check", false, "as --quick, print only what is not ok, and exit with 3 if there are only warnings")
	flags.StringSliceVar(&f.accept, "accept", nil, "with --check: the checks whose warnings are known, separated by commas")
	return a.command(a.redisFlag(c), func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if err := f.refuse(isTerminal(a.in)); err != nil {
			return wrong(err)
		}
		settings, err := a.load()
		if err != nil {
			return err
		}
		daemon.TakeClientLog(daemon.NewLogger(settings, a.err))
		return a.examine(ctx, settings, f)
	})
}

// refuse reports flags that say nothing here; a question needs a terminal.
func (f *doctorFlags) refuse(asks bool) error {
	switch {
	case f.yes && !f.repair:
		return errors.New("unexpected flag --yes: it is for --repair")
	case f.repair && (f.quick || f.check):
		return errors.New("unexpected flag --repair: what is to be repaired is found without --quick and --check")
	case len(f.accept) > 0 && !f.check:
		return errors.New("unexpected flag --accept: it is for --check")
	case f.repair && !f.yes && !asks:
		return errors.New("repairing changes what is in Redis: give --yes to mean it")
	}
	for _, check := range f.accept {
		if !slices.Contains(doctor.Checks(), check) {
			return fmt.Errorf("no check %q to accept: use %s", check, strings.Join(doctor.Checks(), ", "))
		}
	}
	return nil
}

// examine has all examined, and what is out of place repaired if that is wanted and meant.
func (a *app) examine(ctx context.Context, settings daemon.Config, f doctorFlags) error {
	c := settings.Notify()
	told := examined{findings: []doctor.Finding{}, accept: f.accept}
	var bar keyBar
	on := func(one doctor.Finding) {
		counts := told.add(one)
		if !a.json && (!f.check || counts && one.Verdict != doctor.OK) {
			bar.clear()
			a.printFinding(one)
		}
	}
	o := doctor.Options{Quick: f.quick || f.check, Defaults: settings.TopicDefaults(), OnProgress: func(looked, all int) { bar.set(a, looked, all) }}
	_, err := doctor.Run(ctx, c, o, on)
	bar.finish()
	if n := told.repairable; err == nil && f.repair && n > 0 {
		if !f.yes {
			err = a.ask(ctx, fmt.Sprintf("Repair %s?", plural(n, "fault")), "nothing was repaired")
		}
		if err == nil {
			told.forgetContents()
			_, err = doctor.Repair(ctx, c, o, on)
			bar.finish()
		}
	}
	return a.sumUp(&told, f.check, err)
}

// sumUp prints what is left to print when all is told that is known, and returns the error to end with.
func (a *app) sumUp(told *examined, check bool, err error) error {
	if a.json && (err == nil || errors.Is(err, context.Canceled)) {
		if bad := a.printJSON(told.findings); bad != nil {
			return bad
		}
	}
	switch worst := told.worst(); {
	case err != nil:
		return err
	case worst == doctor.Fail:
		return errTold
	case worst == doctor.Warn && check:
		return errWarned
	case check && !a.json:
		terminal.Printf(a.out, "ok    %s\n", plural(len(told.findings), "check"))
	}
	return nil
}

// keyBar shows on a terminal how far the look at all keys is.
type keyBar struct {
	bar *progressbar.ProgressBar
	all int
}

func (b *keyBar) set(a *app, looked, all int) {
	if b.bar == nil || b.all != all {
		b.finish()
		size := int64(all)
		if all == 0 {
			size = -1
		}
		b.bar, b.all = a.progress("looking at all keys", size), all
	}
	_ = b.bar.Set(looked) // it only draws
}

func (b *keyBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}

func (b *keyBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
	b.bar = nil
}

// examined is what was told.
type examined struct {
	findings   []doctor.Finding
	repairable int
	accept     []string // checks whose warnings do not count
}

// add takes note of a finding, and returns whether its verdict counts.
func (e *examined) add(f doctor.Finding) bool {
	e.findings = append(e.findings, f)
	if f.Repairable {
		e.repairable++
	}
	return e.counts(f)
}

func (e *examined) counts(f doctor.Finding) bool {
	return f.Verdict == doctor.Fail || !slices.Contains(e.accept, f.Check)
}

// forgetContents forgets what was out of place, since that is told anew.
func (e *examined) forgetContents() {
	e.findings = slices.DeleteFunc(e.findings, func(f doctor.Finding) bool { return f.Check == doctor.Contents })
}

// worst returns the worst verdict that counts.
func (e *examined) worst() doctor.Verdict {
	worst := doctor.OK
	for _, f := range e.findings {
		if e.counts(f) {
			worst = max(worst, f.Verdict)
		}
	}
	return worst
}

// found is the column in which a row says what was found.
const found = 26

// printFinding prints a row, wrapped between words on a terminal. In systemd's
// journal it has the priority of its verdict.
func (a *app) printFinding(f doctor.Finding) {
	begin := daemon.Priority(a.out, map[doctor.Verdict]slog.Level{doctor.Warn: slog.LevelWarn, doctor.Fail: slog.LevelError}[f.Verdict])
	row := fmt.Sprintf("%-4s  %-18s  ", f.Verdict, f.Check)
	for _, line := range a.wrapAfter(found, f.Found) {
		if room := columnsOf(a.out) - found; room > 0 {
			line = shorten(line, room) // which a name alone may need; that of the remedy is to be copied
		}
		fmt.Fprintf(a.out, "%s%-*s%s\n", begin, found, row, line)
		row = ""
	}
	if f.Remedy == "" {
		return
	}
	arrow := "→ "
	for _, line := range a.wrapAfter(found+2, f.Remedy) {
		fmt.Fprintf(a.out, "%s%*s%s%s\n", begin, found, "", arrow, line)
		arrow = "  "
	}
}

// wrapAfter wraps a sentence, which may repeat words of others, to what a terminal has behind a column.
func (a *app) wrapAfter(column int, sentence string) []string {
	return wrap(terminal.Escape(sentence), max(columnsOf(a.out)-column, 0))
}
