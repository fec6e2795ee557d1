package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
)

func (a *app) doctorCommand() *cobra.Command {
	var mend, yes bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "doctor",
		Short: "Examine Redis, and repair what is out of place in it",
		Long: `Examine Redis: can it be reached, is it new enough, does it keep its data, does it
evict keys, may this user do all that is needed, how far off is its clock, how
long does a ring take, does a carrier live, is anything out of place. What has to
be tried is tried under a prefix of its own, and removed.

Messages are out of place where keys were removed, restored in part or changed by
another program: a record that stands in no place would never be delivered. It is
told what would be done about each. With --repair it is done, after a question, or
without one with --yes. It can be done while everything works. What could still be
delivered is; what has no record is removed.

Exits with 1 if anything fails and is not repaired.`,
		Example: `  bellhop doctor
  bellhop doctor --repair
  bellhop doctor --json | jq '.[] | select(.verdict != "ok")'`,
		Args: takes(),
	})
	c.Flags().BoolVar(&mend, "repair", false, "repair what is out of place")
	c.Flags().BoolVar(&yes, "yes", false, "with --repair: do not ask")
	return a.command(c, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if mend && !yes && !isTerminal(a.in) {
			return wrong(errors.New("repairing changes what is in Redis: give --yes to mean it"))
		}
		settings, err := load()
		if err != nil {
			return err
		}
		daemon.TakeClientLog(daemon.NewLogger(settings, a.err))
		return a.examine(ctx, settings.Notify(), mend, yes)
	})
}

// examine has Redis examined, and what is out of place repaired if that is wanted and meant.
func (a *app) examine(ctx context.Context, c notify.Config, mend, yes bool) error {
	told := examined{findings: []doctor.Finding{}}
	on := func(f doctor.Finding) {
		told.add(f)
		if !a.json {
			a.printFinding(f)
		}
	}
	_, err := doctor.Run(ctx, c, on)
	if n := told.repairable; err == nil && mend && n > 0 {
		if !yes {
			err = a.ask(ctx, fmt.Sprintf("Repair %d faults?", n), "nothing was repaired")
		}
		if err == nil {
			told.forgetContents()
			_, err = doctor.Repair(ctx, c, on)
		}
	}
	if a.json && err == nil {
		err = a.printJSON(told.findings)
	}
	if err == nil && told.worst() == doctor.Fail {
		err = errTold
	}
	return err
}

// examined is what was told.
type examined struct {
	findings   []doctor.Finding
	repairable int
}

func (e *examined) add(f doctor.Finding) {
	e.findings = append(e.findings, f)
	if f.Repairable {
		e.repairable++
	}
}

// forgetContents forgets what was out of place, since that is told anew.
func (e *examined) forgetContents() {
	e.findings = slices.DeleteFunc(e.findings, func(f doctor.Finding) bool { return f.Check == doctor.Contents })
}

// worst returns the worst verdict.
func (e *examined) worst() doctor.Verdict {
	worst := doctor.OK
	for _, f := range e.findings {
		worst = max(worst, f.Verdict)
	}
	return worst
}

func (a *app) printFinding(f doctor.Finding) {
	fmt.Fprintf(a.out, "%-4s  %-18s  %s\n", f.Verdict, f.Check, f.Found)
	if f.Remedy != "" {
		fmt.Fprintf(a.out, "%26s→ %s\n", "", f.Remedy)
	}
}
