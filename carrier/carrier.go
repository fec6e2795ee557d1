package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Defaults and limits of Options.
const (
	DefaultLease     = 3 * time.Second
	MinLease         = 500 * time.Millisecond
	MaxLease         = store.MaxCarrierLease
	DefaultBatch     = 500
	MaxBatch         = 1000
	DefaultKeepCount = 100_000
	MaxKeepCount     = 10_000_000
	DefaultKeepAge   = 24 * time.Hour
	MinKeepAge       = time.Second
	MaxKeepAge       = 10 * 366 * 24 * time.Hour

	DefaultKeepDeadCount = 100_000
	DefaultKeepDeadAge   = 90 * 24 * time.Hour
	DefaultKeepDoneCount = 100_000
	DefaultKeepDoneAge   = 30 * 24 * time.Hour
	DefaultKeepTopics    = 30 * 24 * time.Hour
	DefaultSweep         = time.Minute
	MinSweep             = time.Millisecond
	MaxSweep             = time.Hour
)

// fewLogged is how many shards log an election, or what else is no fault, by themselves when it happens to many at once.
const fewLogged = 8

// Options are the options of a Carrier. The zero value is the default.
type Options struct {
	Name      string        // name of the carrier, for people, and for handing shards over: best its own; empty: HOST:PID
	Lease     time.Duration // of the election: how long nothing is carried after a carrier was killed; zero: DefaultLease
	Batch     int           // most messages moved in one call, or two if it is one, but for what a topic has for one time alone, and hand-overs; zero: DefaultBatch
	KeepCount int           // broadcasts that the log of a topic keeps, or some more; if fewer than Batch, some may be trimmed before any listener reads them; zero: DefaultKeepCount
	KeepAge   time.Duration // how long a log keeps them, or some longer; zero: DefaultKeepAge
	Logger    *slog.Logger  // nil: slog.Default(); to log nothing: slog.New(slog.DiscardHandler)

	// The housekeeping. It removes what is beyond these limits later, in small steps.
	KeepDeadCount int           // dead letters that a topic keeps; zero: DefaultKeepDeadCount
	KeepDeadAge   time.Duration // how long a topic keeps them; zero: DefaultKeepDeadAge
	KeepDoneCount int           // messages that succeeded that a topic keeps (AckWith); zero: DefaultKeepDoneCount
	KeepDoneAge   time.Duration // how long it keeps one at the longest, of those acknowledged from then on; zero: DefaultKeepDoneAge
	KeepTopics    time.Duration // how long an empty topic's counters are kept, at least KeepAge; zero: DefaultKeepTopics
	Sweep         time.Duration // between two steps that find nothing to do; zero: DefaultSweep

	NoHistory bool // keep no history of what was published, claimed and acknowledged, and how late; remove what others kept

	// OnTerm is called in its own goroutine when this carrier is elected for a shard. Its
	// context ends with the term. The carrier does not wait for it to return: meanwhile it
	// gives up its lease, stands for election again and may carry. The next call for the
	// shard comes when the one before has returned; those for other shards run beside it.
	// Run returns when all have returned.
	OnTerm func(ctx context.Context, t Term)

	// OnCarried is called after each call that moved something, in the carrier's loop for
	// the shard: it must not block, and is called for several shards at a time.
	OnCarried func(Carried)

	// OnDead is called for each message that the carrier buried: its lease expired on
	// its last attempt, it expired, or it is foreign. It must not block, and is called for
	// several shards at a time. A subscriber reports the messages that it buries itself.
	OnDead func(Death)
}

// A Term lasts from an election until the carrier loses its lease of a shard or gives it up.
type Term struct {
	Name  string    // Options.Name
	Epoch int64     // number of the election
	Since time.Time // of that, by Redis's clock
	Shard store.Shard
}

// A Death is a message that the carrier buried.
type Death struct {
	Topic, ID string // if the member is foreign Topic is empty, and ID is all of it
	Reason    string
	Attempts  int // used up
}

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
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	o.keepByDefault()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Carrier{store: s, o: o, movers: []*mover{newMover(s.Home(), o, o.Logger, newShares(1))}, sums: outage.NewSummary(o.Logger, fewLogged)}, nil
}

// keepByDefault sets the defaults of what is kept.
func (o *Options) keepByDefault() {
	if o.KeepCount == 0 {
		o.KeepCount = DefaultKeepCount
	}
	if o.KeepAge == 0 {
		o.KeepAge = DefaultKeepAge
	}
	if o.KeepDeadCount == 0 {
		o.KeepDeadCount = DefaultKeepDeadCount
	}
	if o.KeepDeadAge == 0 {
		o.KeepDeadAge = DefaultKeepDeadAge
	}
	if o.KeepDoneCount == 0 {
		o.KeepDoneCount = DefaultKeepDoneCount
	}
	if o.KeepDoneAge == 0 {
		o.KeepDoneAge = DefaultKeepDoneAge
	}
	if o.KeepTopics == 0 {
		o.KeepTopics = DefaultKeepTopics
	}
	if o.Sweep == 0 {
		o.Sweep = DefaultSweep
	}
}

// Check returns a joined notify.Fault for each option that is out of range. Unlike
// New it does not replace zeros by defaults: they are out of range.
func (o Options) Check() error {
	return errors.Join(
		checkName(o.Name),
		fault.Within("lease", "carrier lease", o.Lease, MinLease, MaxLease),
		fault.Within("batch", "carrier batch", o.Batch, 1, MaxBatch),
		fault.Within("keep_count", "count of broadcasts to keep", o.KeepCount, 1, MaxKeepCount),
		fault.Within("keep_age", "age of broadcasts to keep", o.KeepAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_dead_count", "count of dead letters to keep", o.KeepDeadCount, 1, MaxKeepCount),
		fault.Within("keep_dead_age", "age of dead letters to keep", o.KeepDeadAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_done_count", "count of messages that succeeded to keep", o.KeepDoneCount, 1, MaxKeepCount),
		fault.Within("keep_done_age", "age of messages that succeeded to keep", o.KeepDoneAge, MinKeepAge, MaxKeepAge),
		fault.Within("keep_topics", "time to remember topics", o.KeepTopics, MinKeepAge, MaxKeepAge),
		fault.Within("sweep", "pause of the housekeeping", o.Sweep, MinSweep, MaxSweep),
	)
}

func checkName(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
		return fault.New("name", "carrier name %q: use printable ASCII without spaces", name)
	}
	return nil
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
