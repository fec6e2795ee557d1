package carrier

import (
	"context"
	"errors"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// fewLogged is how many shards log an election, or what else is no fault, by themselves when it happens to many at once.
const fewLogged = 8

// A Carrier moves the messages of each shard for which it is elected. It is run once at a time.
type Carrier struct {
	store *notify.Store
	o     Options

	mu     sync.Mutex
	movers []*mover        // one for each shard; only the first while their number is not known
	sums   *outage.Summary // of what their shards log
}

// New returns a carrier on a store. It starts nothing. The error joins a notify.Fault for each option that is wrong.
func New(s *notify.Store, options ...Options) (*Carrier, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err); err != nil {
		return nil, err
	}
	o.byDefault()
	if err := o.Check(); err != nil {
		return nil, err
	}
	if s.IsCalm() {
		o.Lease, o.Sweep = 3*s.Beat(), s.Beat()
	}
	return &Carrier{store: s, o: o, movers: []*mover{newMover(s.Home(), o, o.Logger, newShares(1))}, sums: outage.NewSummary(o.Logger, fewLogged)}, nil
}

// Run stands by for each shard, carries those for which it is elected, and stands by
// again when deposed, until ctx ends; then it gives up its leases and returns nil. If
// Redis cannot be reached, or refuses a call, Run logs that once and retries; it logs once
// when calls succeed again. It also logs when no carrier, of any process, is heard for
// twice the lease. The error is a notify.ErrUnfit: Redis cannot hold messages safely.
func (c *Carrier) Run(ctx context.Context) error {
	defer c.all()[0].loop.End()
	movers, err := c.learn(ctx)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var unfit unfitError
	defer c.sums.Flush()
	var running sync.WaitGroup
	for _, m := range movers {
		running.Go(func() {
			if err := m.run(ctx); err != nil {
				fail(unfitError{err})
			}
		})
	}
	running.Wait()
	errors.As(context.Cause(ctx), &unfit)
	return unfit.error
}

// unfitError is why all movers end if Redis is unfit for one.
type unfitError struct{ error }

// learn waits until the number of shards is known, and returns a mover for each; none if
// ctx ended. The error is that Redis is unfit.
func (c *Carrier) learn(ctx context.Context) ([]*mover, error) {
	first := c.all()[0]
	first.setRole(0)
	retry := first.retryStanding()
	for ctx.Err() == nil {
		first.loop.Note()
		answered := retry.After(reach.Patience, "error", c.store.NoAnswer())
		shards, err := c.shards(ctx)
		answered()
		if errors.Is(err, notify.ErrUnfit) {
			return nil, err
		}
		if retry.Wait(ctx, err); err == nil {
			return c.grow(shards), nil
		}
	}
	return nil, nil
}

func (c *Carrier) shards(ctx context.Context) ([]store.Shard, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.store.Shards(ctx)
}

// grow makes the movers of all shards, unless they are made.
func (c *Carrier) grow(shards []store.Shard) []*mover {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.movers) < len(shards) {
		c.movers = make([]*mover, len(shards))
		shares, log := newShares(len(shards)), c.sums.Logger()
		for i, shard := range shards {
			c.movers[i] = newMover(shard, c.o, log.With("shard", shard.Label()), shares)
		}
	}
	return c.movers
}

// all returns the movers that are made.
func (c *Carrier) all() []*mover {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.movers
}

// States returns what the carrier does for each shard, in their order; for the first alone
// while Run does not know yet how many there are. It is safe for concurrent use, and makes
// no call to Redis.
func (c *Carrier) States() []State {
	movers := c.all()
	all := make([]State, len(movers))
	for i, m := range movers {
		all[i] = m.now()
	}
	return all
}

// Alive returns an error if the carrier's loop for a shard is stuck, for watchdogs. It is
// nil while Redis cannot be reached, and while the carrier does not run.
func (c *Carrier) Alive() error {
	var stuck []error
	for _, m := range c.all() {
		stuck = append(stuck, m.loop.Alive())
	}
	return errors.Join(stuck...)
}
