package console

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
)

const (
	doctorEvery  = time.Minute
	doctorWithin = 30 * time.Second // a slot that is being moved is watched for ten, and a beat waited for as long
)

// A checkup is what the doctor found. That takes longer than a page may: until it is there, pages
// show the one before.
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

// findings are what the doctor found wrong: failures first.
type findings struct {
	At     time.Time // zero: the doctor has not been there yet
	Wrong  []finding
	Checks int   // made, with those that found nothing
	Fault  error // why there are not all of them
}

// A finding is one of the doctor.
type finding struct{ doctor.Finding }

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
	return d.last
}

// examine has the doctor look.
func (d *checkup) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)()
	all, err := doctor.Look(ctx, d.store, d.options)
	seen := findings{At: clock{d.store}.now(ctx), Checks: len(all), Fault: err}
	for _, one := range all {
		if one.Verdict != doctor.OK {
			seen.Wrong = append(seen.Wrong, finding{one})
		}
	}
	slices.SortStableFunc(seen.Wrong, func(a, b finding) int { return cmp.Compare(b.Verdict, a.Verdict) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running, d.last = false, seen
}
