package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
)

const (
	doctorEvery  = 15 * time.Second
	doctorsWord  = 4 * doctorEvery  // for which it stands: nobody may have looked since
	doctorWithin = 30 * time.Second // a slot that is being moved is watched for ten, and a beat waited for as long
)

// A checkup is what the doctor found. That takes longer than a page may: until it is there, pages
// show the one before, unless that is old.
type checkup struct {
	store      *notify.Store
	options    doctor.Options
	closing    context.Context
	background *sync.WaitGroup

	mu      sync.Mutex
	started time.Time
	running bool
	last    findings
}

// findings are what the doctor found wrong: failures first, and of them what stops most.
type findings struct {
	At     time.Time // zero: the doctor has not been there lately
	Wrong  []finding
	Checks int   // made, with those that found nothing
	Fault  error // why there are not all of them

	ended time.Time // by this host's clock
}

// A finding is one of the doctor.
type finding struct{ doctor.Finding }

// Upgrades reports whether an upgrade of the store is the remedy.
func (f finding) Upgrades() bool { return f.Check == doctor.Format && f.Verdict == doctor.Warn }

// Class returns the class of the style of a finding, and Sign its sign.
func (f finding) Class() string {
	if f.Verdict == doctor.Fail {
		return "dead"
	}
	return "late"
}

func (f finding) Sign() string {
	if f.Verdict == doctor.Fail {
		return "✕"
	}
	return "▲"
}

// findings returns what the doctor found last, and has it look again if that is too long ago.
func (d *checkup) findings(ctx context.Context) findings {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running && time.Since(d.started) >= doctorEvery {
		d.running, d.started = true, time.Now()
		d.background.Go(func() { d.examine(context.WithoutCancel(ctx)) }) // for later pages, too
	}
	if time.Since(d.last.ended) > doctorsWord {
		return findings{}
	}
	return d.last
}

// forget has the doctor look again for the next page: what it found is no more.
func (d *checkup) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.last = time.Time{}, findings{}
}

// examine has the doctor look.
func (d *checkup) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)()
	all, err := doctor.Look(ctx, d.store, d.options)
	seen := findingsOf(all)
	seen.At, seen.Fault, seen.ended = clock{d.store}.now(ctx), err, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running, d.last = false, seen
}

// findingsOf returns those of a doctor's findings that are wrong, in their order.
func findingsOf(all []doctor.Finding) findings {
	seen := findings{Checks: len(all)}
	for _, one := range all {
		if one.Verdict != doctor.OK {
			seen.Wrong = append(seen.Wrong, finding{one})
		}
	}
	slices.SortStableFunc(seen.Wrong, func(a, b finding) int { return doctor.Compare(a.Finding, b.Finding) })
	return seen
}
