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

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/doctor"
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
		Short: "Examine Redis and the service on it; repair what is out of place",
		Long: `Examine Redis: whether it answers, is new enough, keeps its data and evicts no keys,
whether this user has all rights, how far off its clock is, and how long a ring
takes. Examine the service: whether a carrier is alive and another one would take
over, which topics are overdue without a worker, paused, or had deaths in the last
day, which settings apply to all topics, which listeners are behind, whether the
archive is, whether outboxes are relayed, and whether NATS is away. Each finding
that is not ok names a remedy. Rights are tried under a prefix of its own, which is
removed afterwards.

Last, all keys are examined for messages out of place, which takes half a minute for
a million messages; --quick leaves that out. Messages are out of place if keys were
removed, restored in part, or changed by another program: a message in no place would
never be delivered. Each finding says what a repair would do. --repair repairs them,
after a question, or without one with --yes; carriers and workers may run meanwhile.
Messages that can still be delivered are delivered; members without a record are
removed.

--check is for a timer: it prints only what is not ok, and implies --quick. Warnings
of checks that --accept names are neither printed nor counted.

Exits with 1 if a check fails and is not repaired; with --check, with 3 if there are
only warnings.`,
		Example: `  bellhop doctor
  bellhop doctor --repair
  bellhop doctor --check --accept standby,memory
  bellhop doctor --json | jq '.[] | select(.verdict != "ok")'`,
		Args: takes(),
	})
	flags := c.Flags()
	flags.BoolVar(&f.repair, "repair", false, "repair what is out of place")
	flags.BoolVar(&f.yes, "yes", false, "with --repair: do not ask")
	flags.BoolVar(&f.quick, "quick", false, "do not examine all keys")
	flags.BoolVar(&f.check, "check", false, "like --quick, but print only what is not ok, and exit with 3 if there are only warnings")
	flags.StringSliceVar(&f.accept, "accept", nil, "with --check: checks whose warnings are accepted, separated by commas")
	return a.command(a.redisFlag(c), func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if err := f.refuse(text.IsTerminal(a.in)); err != nil {
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

// refuse reports flags that do not fit together, and a question without a terminal.
func (f *doctorFlags) refuse(asks bool) error {
	switch {
	case f.yes && !f.repair:
		return errors.New("unexpected flag --yes: it is for --repair")
	case f.repair && (f.quick || f.check):
		return errors.New("unexpected flag --repair: it needs all checks; leave out --quick and --check")
	case len(f.accept) > 0 && !f.check:
		return errors.New("unexpected flag --accept: it is for --check")
	case f.repair && !f.yes && !asks:
		return errors.New("a repair changes the data in Redis: give --yes to confirm")
	}
	for _, check := range f.accept {
		if !slices.Contains(doctor.Checks(), check) {
			return fmt.Errorf("no check %q to accept: use %s", check, strings.Join(doctor.Checks(), ", "))
		}
	}
	return nil
}

// examine runs all checks, and repairs what is out of place if that is wanted and confirmed.
func (a *app) examine(ctx context.Context, settings daemon.Config, f doctorFlags) error {
	c := settings.Notify()
	seen := examined{findings: []doctor.Finding{}, accept: f.accept}
	var bar keyBar
	on := func(one doctor.Finding) {
		counts := seen.add(one)
		if !a.json && (!f.check || counts && one.Verdict != doctor.OK) {
			bar.clear()
			a.printFinding(one)
		}
	}
	o := settings.Doctor(nil)
	o.Quick, o.OnProgress = f.quick || f.check, func(done, all int) { bar.set(a, done, all) }
	_, err := doctor.Run(ctx, c, o, on)
	bar.finish()
	if n := seen.repairable; err == nil && f.repair && n > 0 {
		if !f.yes {
			err = a.ask(ctx, fmt.Sprintf("Repair %s?", text.Plural(n, "fault")), "nothing was repaired")
		}
		if err == nil {
			seen.forgetContents()
			_, err = doctor.Repair(ctx, c, o, on)
			bar.finish()
		}
	}
	return a.sumUp(&seen, f.check, err)
}

// sumUp prints the end of the output, and returns the error to end with.
func (a *app) sumUp(seen *examined, check bool, err error) error {
	if a.json && (err == nil || errors.Is(err, context.Canceled)) {
		if bad := a.printJSON(seen.findings); bad != nil {
			return bad
		}
	}
	if first := doctor.First(seen.findings); first != nil && !a.json && seen.failures() > 1 {
		terminal.Printf(a.out, "\nbegin with %s, which stops most\n", first.Check)
	}
	switch worst := seen.worst(); {
	case err != nil:
		return err
	case worst == doctor.Fail:
		return errReported
	case worst == doctor.Warn && check:
		return errWarned
	case check && !a.json:
		terminal.Printf(a.out, "ok    %s\n", text.Plural(len(seen.findings), "check"))
	}
	return nil
}

// keyBar shows the progress of the examination of all keys on a terminal.
type keyBar struct {
	bar *progressbar.ProgressBar
	all int
}

func (b *keyBar) set(a *app, done, all int) {
	if b.bar == nil || b.all != all {
		b.finish()
		size := int64(all)
		if all == 0 {
			size = -1
		}
		b.bar, b.all = a.progress("examining all keys", size), all
	}
	_ = b.bar.Set(done) // it only draws
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

// examined is the findings so far.
type examined struct {
	findings   []doctor.Finding
	repairable int
	accept     []string // checks whose warnings do not count
}

// add adds a finding, and reports whether its verdict counts.
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

// forgetContents removes the findings of the contents, which a repair reports again.
func (e *examined) forgetContents() {
	e.findings = slices.DeleteFunc(e.findings, func(f doctor.Finding) bool { return f.Check == doctor.Contents })
}

func (e *examined) failures() (n int) {
	for _, f := range e.findings {
		if f.Verdict == doctor.Fail {
			n++
		}
	}
	return n
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

// found is the column where the text of a finding begins.
const found = 26

// printFinding prints a row, wrapped between words on a terminal. In systemd's
// journal it has the priority of its verdict.
func (a *app) printFinding(f doctor.Finding) {
	begin := daemon.Priority(a.out, map[doctor.Verdict]slog.Level{doctor.Warn: slog.LevelWarn, doctor.Fail: slog.LevelError}[f.Verdict])
	row := fmt.Sprintf("%-4s  %-18s  ", f.Verdict, f.Check)
	for _, line := range a.wrapAfter(found, f.Found) {
		if width := text.Columns(a.out) - found; width > 0 {
			line = text.Shorten(line, width) // only a long name is shortened; a remedy is printed whole, to be copied
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

// wrapAfter escapes a sentence, which may quote foreign text, and wraps it to what a terminal has after a column.
func (a *app) wrapAfter(column int, sentence string) []string {
	return text.Wrap(terminal.Escape(sentence), max(text.Columns(a.out)-column, 0))
}
