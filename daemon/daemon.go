package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/systemd"
	"github.com/bellhopd/bellhop/notify"
)

// Options are the options of Run. The zero value is the default.
type Options struct {
	Logger  *slog.Logger      // nil: nothing is logged
	Reload  <-chan os.Signal  // each one asks to read again what can be; nil: nothing does
	Systemd *systemd.Notifier // is told how the daemon is; nil: nobody is
}

// Run runs the daemon until ctx ends. Then it stops in stages, within the
// configured timeout: it accepts no more requests over NATS and finishes those
// in hand, finishes the call that the carrier has under way and gives up its
// lease, and closes the connections to NATS and Redis. A stop that was asked for
// is not an error, and a NATS that is away never is. Errors: a notify.ErrUnfit, a
// configuration that cannot be used, or a stop that took too long.
func Run(ctx context.Context, c Config, o Options) error {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store, err := notify.Open(c.Notify())
	if err != nil {
		return err
	}
	d, err := assemble(store, c, log)
	if err != nil {
		store.Close()
		return err
	}
	log.Info("starting", "redis", store.Where(), "prefix", store.Keys().Prefix())

	// Closing the connections ends every call, so that no stage can hang.
	var late *time.Timer
	armed := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		log.Info("stopping", "within", c.ShutdownTimeout.String())
		late = time.AfterFunc(c.ShutdownTimeout, func() { store.Close() })
		close(armed)
	})
	ended, tellEnd := context.WithCancel(context.WithoutCancel(ctx))
	defer tellEnd()
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(ctx, ended, d.overview(store, c, log)) })
	faults := &multierror.Error{ErrorFormat: lines}
	faults = multierror.Append(faults, d.run(ctx, c.ShutdownTimeout))
	tellEnd()
	watching.Wait()
	if !unwatch() {
		<-armed
		if !late.Stop() {
			faults = multierror.Append(faults, fmt.Errorf("stop in good order: not done within %v", c.ShutdownTimeout))
		}
	}
	if err := store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		faults = multierror.Append(faults, fmt.Errorf("close redis at %s: %w", store.Where(), err))
	}
	log.Info("stopped")
	return faults.ErrorOrNil()
}

// parts are what runs in the process, beside the store.
type parts struct {
	carry *carrier.Carrier
	gate  *natsgate.Gate // nil: no NATS
	epoch *atomic.Int64  // of the carrier's term of office; zero: it stands by
}

// assemble makes the parts that a configuration asks for. What the carrier's
// term of office is told to sends over NATS.
func assemble(store *notify.Store, c Config, log *slog.Logger) (p parts, err error) {
	o := c.Carrier(log)
	if c.NatsURL != "" {
		to, err := c.Nats(log)
		if err != nil {
			return parts{}, err
		}
		if p.gate, err = natsgate.New(store, to); err != nil {
			return parts{}, err
		}
	}
	p.epoch = new(atomic.Int64)
	o.OnTerm = func(ctx context.Context, t carrier.Term) {
		p.epoch.Store(t.Epoch)
		context.AfterFunc(ctx, func() { p.epoch.CompareAndSwap(t.Epoch, 0) })
		if p.gate != nil {
			p.gate.Term(ctx, t)
		}
	}
	p.carry, err = carrier.New(store, o)
	return p, err
}

// run runs the parts until ctx ends or the carrier fails, and stops them one
// after the other. Finishing what is in hand may take half of the time for the
// whole, so that the carrier can still give up its lease.
func (p parts) run(ctx context.Context, within time.Duration) error {
	work := context.WithoutCancel(ctx)
	carrierCtx, stopCarrier := context.WithCancel(work)
	defer stopCarrier()
	gateCtx, stopGate := context.WithCancel(work)
	defer stopGate()
	carried, gated := make(chan error, 1), make(chan error, 1)
	go func() { carried <- p.carry.Run(carrierCtx) }()
	if p.gate != nil {
		go func() { gated <- p.gate.Run(gateCtx) }()
	}

	var err error
	select {
	case err = <-carried:
		carried <- nil // for below
	case <-ctx.Done():
	}
	if p.gate != nil {
		finish, cancel := context.WithTimeout(work, within/2)
		defer cancel()
		p.gate.Quiesce(finish)
	}
	stopCarrier()
	err = errors.Join(err, <-carried)
	if p.gate != nil {
		stopGate()
		err = errors.Join(err, <-gated)
	}
	return err
}
