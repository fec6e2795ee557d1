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
	doctorEvery  = 10 * time.Second
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
	Wrong  []doctor.Finding
	Checks int   // made, with those that found nothing
	Fault  error // why there are not all of them

	ended time.Time // by this host's clock
}

// findings returns what the doctor found last, and has it look again if that is too long ago.
func (d *checkup) findings(ctx context.Context) findings {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running && time.Since(d.started) >= doctorEvery {
		began := time.Now()
		d.running, d.started = true, began
		d.background.Go(func() { d.examine(context.WithoutCancel(ctx), began) }) // for later pages, too
	}
	if time.Since(d.last.ended) > doctorsWord {
		return findings{}
	}
	return d.last
}

// forget has the doctor look again for the next page: an act may have mended what it found, or finds at present.
func (d *checkup) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running, d.started, d.last = false, time.Time{}, findings{}
}

// examine has the doctor look. What it found is dropped if it was to look again meanwhile.
func (d *checkup) examine(ctx context.Context, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)()
	all, err := doctor.Look(ctx, d.store, d.options)
	seen := findingsOf(all)
	seen.At, seen.Fault, seen.ended = clock{d.store}.now(ctx), err, time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started.Equal(began) {
		d.running, d.last = false, seen
	}
}

// findingsOf returns those of a doctor's findings that are wrong, in their order.
func findingsOf(all []doctor.Finding) findings {
	seen := findings{Checks: len(all)}
	for _, one := range all {
		if one.Verdict != doctor.OK {
			seen.Wrong = append(seen.Wrong, one)
		}
	}
	slices.SortStableFunc(seen.Wrong, doctor.Compare)
	return seen
}
