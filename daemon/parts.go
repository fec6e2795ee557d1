package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/carrier"
)

// A part is one thing that runs in the daemon. Functions that it does not need are nil.
type part struct {
	name    string
	run     func(context.Context) error         // until its context ends; an error stops the daemon
	quiesce func(context.Context)               // accepts no more work, and finishes its calls under way or gives up when the context ends
	alive   func() error                        // returns an error if a loop is stuck
	reload  func() error                        // reads its files again
	term    func(context.Context, carrier.Term) // runs while this daemon's carrier is elected for a shard: in one of all daemons; for several shards side by side
}

// parts are the parts of a daemon, in the order in which they start and stop.
type parts []part

// run runs the parts until ctx ends or one fails, and stops them one after the
// other. To finish calls under way they have half of the time to stop, so that the
// carrier can still give up its lease.
func (all parts) run(ctx context.Context, within time.Duration, log *slog.Logger) error {
	work := context.WithoutCancel(ctx)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stops []func()
	for _, p := range all {
		if p.run != nil {
			stops = append(stops, p.start(work, log, func(err error) { fail(partFailed{err}) }))
		}
	}
	<-ctx.Done()
	all.quiesce(work, within/2)
	for _, stop := range stops {
		stop()
	}
	var failed partFailed
	errors.As(context.Cause(ctx), &failed)
	return failed.error
}

// partFailed is why the parts end if one of them failed.
type partFailed struct{ error }

// start runs a part in the background, and calls fail with its error. The
// function that it returns ends the part's context and waits for the part.
func (p part) start(ctx context.Context, log *slog.Logger, fail func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.run(ctx); err != nil {
			fail(err)
		}
		log.Debug("stopped a part", "part", p.name)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// quiesce has all parts, at the same time, accept no more work and finish their calls under way.
func (all parts) quiesce(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var quiet sync.WaitGroup
	for _, p := range all {
		if p.quiesce != nil {
			quiet.Go(func() { p.quiesce(ctx) })
		}
	}
	quiet.Wait()
}

// alive returns an error that names the loops that are stuck.
func (all parts) alive() error {
	var stuck []error
	for _, p := range all {
		if p.alive != nil {
			stuck = append(stuck, p.alive())
		}
	}
	return errors.Join(stuck...)
}

// reload has the parts read their files again. Files that cannot be used leave things as they were, and are the error.
func (all parts) reload() error {
	var faults []error
	for _, p := range all {
		if p.reload != nil {
			faults = append(faults, p.reload())
		}
	}
	return errors.Join(faults...)
}

// term runs the terms of the parts for a shard until ctx ends.
func (all parts) term(ctx context.Context, t carrier.Term) {
	var running sync.WaitGroup
	for _, p := range all {
		if p.term != nil {
			running.Go(func() { p.term(ctx, t) })
		}
	}
	running.Wait()
}
