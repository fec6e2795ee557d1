package carrier

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
)

// A mover is the part of a Carrier that cares for one shard.
type mover struct {
	shard  store.Shard
	redis  calls
	o      Options
	log    *slog.Logger // o.Logger; of several shards one that names the shard, and sums up what happens to many at once
	shares *shares      // of all movers of the Carrier
	beats  chan heardBeat
	loop   *progress.Loop
	policy string // that lets Redis evict messages, as its terms found it; empty: it evicts nothing

	mu    sync.Mutex
	state State
}

func newMover(shard store.Shard, o Options, log *slog.Logger, shares *shares) *mover {
	return &mover{
		shard: shard, redis: callsTo(shard), o: o, log: log, shares: shares,
		beats: make(chan heardBeat, 1), loop: progress.New("carrier", shard.Store().Bear(bound())),
	}
}

// calls are what the loop of a mover asks of its shard, and how it ends a sleep. Tests give it
// others, whose Redis and time are simulated.
type calls struct {
	elect     func(ctx context.Context, name string, lease time.Duration, carries int) (store.Election, error)
	carry     func(context.Context, store.Carry) (store.Carried, error)
	sweep     func(context.Context, store.Sweep) (store.Swept, error)
	fill      func(ctx context.Context, token string, settle bool, fills []store.Fill) (store.Filled, error)
	renew     func(ctx context.Context, token, version, cursor string) (next string, err error)
	schedules func(ctx context.Context, most int, after store.Mark) (store.SchedulePage, error)
	resign    func(ctx context.Context, token, to string, before int) (was bool, err error)
	withdraw  func(ctx context.Context, name string) error
	nudges    func(ctx context.Context, on func(store.Event)) // and beats, until ctx ends
	vacant    func(ctx context.Context, on func(store.Event)) // and beats, until ctx ends
	drop      func(context.Context) ([]string, error)         // libraries of functions that nobody uses
	repair    func(context.Context) error                     // home's: writes the root again if that is lost
	adopt     func(context.Context) error                     // takes over home's settings for all topics
	rest      func(until time.Time)                           // until a time that is at most fine away
	stirred   <-chan struct{}                                 // receives when something was done in a calm store; else nil
}

func callsTo(shard store.Shard) calls {
	return calls{
		elect: shard.Elect, carry: shard.Carry, sweep: shard.Sweep, fill: shard.FillSchedules, renew: shard.RenewZones, schedules: shard.AllSchedules, resign: shard.Resign, withdraw: shard.Withdraw,
		nudges: func(ctx context.Context, on func(store.Event)) {
			shard.Store().Subscribe(ctx, on, shard.NudgeChannel())
		},
		vacant: func(ctx context.Context, on func(store.Event)) {
			shard.Store().Subscribe(ctx, on, shard.VacantChannel())
		},
		drop: shard.DropLibraries, repair: shard.Store().RepairRoot, adopt: shard.AdoptSettings, rest: restOf(shard), stirred: shard.Store().Stirred(),
	}
}

// restOf returns how the mover of a shard ends a sleep. In a bubble of testing/synctest no time passes while somebody runs, as in a spin.
func restOf(shard store.Shard) func(until time.Time) {
	if shard.Store().IsCalm() {
		return func(until time.Time) { time.Sleep(time.Until(until)) }
	}
	return sleepFine
}

// run is Run for one shard.
func (m *mover) run(ctx context.Context) error {
	var started sync.WaitGroup
	defer started.Wait()
	defer m.setRole(0)
	defer m.loop.End()
	awaiting, stop := context.WithCancel(ctx)
	defer stop()
	started.Go(func() { m.awaitBeats(awaiting) })
	var terms sync.Mutex // held while OnTerm runs
	var pause time.Duration
	for ctx.Err() == nil {
		t, err := m.standBy(ctx, pause)
		if err != nil || t == nil {
			return err
		}
		term, end := context.WithCancel(ctx)
		if m.o.OnTerm != nil {
			started.Go(func() {
				terms.Lock()
				defer terms.Unlock()
				if term.Err() == nil {
					m.o.OnTerm(term, Term{Name: m.o.Name, Epoch: t.epoch, Since: t.since, Sent: t.sent, Shard: m.shard})
				}
			})
		}
		m.serve(ctx, t)
		end()
		if pause = 0; t.heir != "" {
			pause = m.shares.after(t.heir)
		}
	}
	return nil
}

// serve carries for a term.
func (m *mover) serve(ctx context.Context, t *term) {
	m.setRole(t.epoch)
	m.shares.add(1)
	defer m.shares.add(-1)
	m.log.Info("elected", "carrier", m.o.Name, "epoch", t.epoch)
	var deposed *store.DeposedError
	switch err := t.carry(ctx); {
	case !errors.As(err, &deposed):
		m.resign(ctx, t)
	case deposed.Vacant: // no call got through in time, or Redis lost the lease
		m.log.Warn("deposed: the lease ran out; standing for election again", "carrier", m.o.Name, "epoch", t.epoch, "lease", m.o.Lease)
	default:
		m.log.Warn("deposed: another carrier has the lease; standing by", "carrier", m.o.Name, "epoch", t.epoch, "by", deposed.By)
	}
}
