package subscribers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	ahead   = 5 * time.Millisecond   // of work that is claimed before a goroutine is free
	stalled = 100 * time.Millisecond // after which work that was claimed ahead is released
)

// A source is what an engine works on: the messages of a topic, or the
// broadcasts of a named listener.
type source[W any] struct {
	// claim leases up to n pieces of work. Where claims settle, it first
	// acknowledges done, and n may be 0. It is called by one goroutine alone.
	claim func(ctx context.Context, n int, done []W) (batch[W], error)

	// handle handles a piece of work by engine.try. It reports whether the work is to be
	// acknowledged; if not, it was released or rejected, or its lease is lost.
	handle func(grace context.Context, j *job[W], work W) (done bool)

	// ack acknowledges work, and returns the pieces whose lease was lost.
	ack func(ctx context.Context, done []W) (lost []W, err error)

	// release releases work. If rest is set, the source does not ring
	// until the next claim.
	release func(ctx context.Context, back []*job[W], rest bool) error

	// rests is called when the engine stops, and nothing more is claimed or handed over; nil: nobody
	// waits for that.
	rests func()

	dropped func() // counts work that was handed over and is dropped; nil: the source hands nothing over

	// extend extends the leases of up to record.MaxClaim pieces of work.
	extend func(ctx context.Context, all []W, lease time.Duration) (extension[W], error)

	lease func(*W) (lease, most time.Duration) // that the claim gave, and with all extensions; zero: without end
	ends  func(error) bool                     // reports whether an error of claim ends the engine
	size  func(*W) int                         // bytes of the body, for terms.budget; nil: there is none
	about func(*W) []any                       // names a piece of work in the log
	noun  string                               // what a piece of work is called
}

// An extension is what became of leases that were to be extended.
type extension[W any] struct {
	renew   func(int, *W) // notes it in a piece of work, by its index
	lost    []int         // indexes of those that were lost
	stopped []int         // indexes of those to stop the work on: their leases are as before
}

// A batch is what a claim brought.
type batch[W any] struct {
	work  []W
	more  bool          // there may be more now; if not, the source rings when there is more
	again time.Duration // if more than zero, the source may not ring: in how long to claim again
	then  func()        // called when the work is queued; may be nil
}

// terms are the limits under which an engine works.
type terms struct {
	concurrency int            // goroutines that handle
	ahead       int            // pieces of work that are claimed before a goroutine is free, at the most
	grace       time.Duration  // of handlers, when the engine stops
	budget      *budget.Budget // of what is open; nil: none

	// Work may be settled after its lease has ended, too, until a claim hands it out
	// again. So claims settle: each claim first acknowledges what is done.
	claimsSettle bool
}

// An engine has hands handle work that it leases. Its own goroutines: one that claims, one
// that acknowledges, and one that extends leases.
type engine[W any] struct {
	source[W]
	terms
	*hands[W]
	log     *slog.Logger
	outages *slog.Logger // of the shard

	rung    chan struct{} // there may be work
	freed   chan struct{} // enough hands are free to claim again
	handled chan struct{} // a job is to be acknowledged; where claims settle this is freed
	shorter chan struct{} // every became shorter

	// receipts is locked for writing while leases are extended, which changes the
	// receipts, and for reading by each call that settles with them.
	receipts sync.RWMutex

	// Guarded by hands.mu.
	handlers   context.Context  // of handlers; nil before the engine runs
	accepts    bool             // it takes hand-overs
	claiming   bool             // a claim is under way
	paused     bool             // until hands.openUntil, or it is to claim again since
	waits      bool             // it claims when hands are free
	turn       int              // of hands.turns, when it did last
	asks       int              // of hands.asked
	slow       *time.Timer      // ends that
	handed     []*job[W]        // handed over during it: they are younger than what it may bring
	refused    []*job[W]        // to be released before the next claim: they are older than what that may bring
	box        mailbox          // of the hand-overs that are not among handed
	leased     map[*job[W]]bool // claimed, not settled
	done       []*job[W]        // handled, not acknowledged
	stopBy     time.Time        // when settling ends; zero while the engine runs
	yields     bool             // what was queued was released, and there may be more of it than was claimed since
	every      time.Duration    // in which leases are extended: a third of the shortest; 0: nothing was leased
	confirming bool             // a hand-over is to be confirmed
	again      time.Time        // when to claim again, though the source did not ring; zero: it will ring
}

// A job is a piece of work that this process has leased.
type job[W any] struct {
	work    W          // its receipt is guarded by engine.receipts and engine.mu
	of      *engine[W] // that leased it; set when it is queued
	queued  time.Time
	size    int                     // that the budget has it for
	circuit int                     // the engine's when it was queued, or returned a NotNow; guarded by engine.mu
	sent    time.Time               // before the call that gave the lease; guarded by engine.mu
	lease   time.Duration           // from the claim on, and from each extension; guarded by engine.mu
	ends    time.Time               // when the last extension ends; zero: there is no last one
	margin  time.Duration           // before that, which the rejection is given
	at      int64                   // when it was handed over, in us by Redis's clock; 0: it was claimed
	confirm time.Duration           // lease for which a hand-over is to be confirmed; 0: it is, or was claimed; guarded by engine.mu
	lost    bool                    // the lease; guarded by engine.mu
	stopped bool                    // the work, which is cancelled: its lease is not extended any more; guarded by engine.mu
	handled bool                    // and to be acknowledged; guarded by engine.mu
	settled bool                    // by the handler itself; guarded by engine.mu
	back    bool                    // it was handled, and is among engine.refused; guarded by engine.mu
	tries   int                     // of the handler
	took    time.Duration           // by the handler; for its goroutine alone
	cancel  context.CancelCauseFunc // of the handler's context, nil before; guarded by engine.mu
}

// lose marks a lease as lost and ends the handler's context. The engine's mutex is held.
func (j *job[W]) lose() {
	j.lost = true
	if j.cancel != nil {
		j.cancel(notify.ErrLeaseLost)
	}
}

// stop ends the handler's context of work that is cancelled. The engine's mutex is held.
func (j *job[W]) stop() {
	j.stopped = true
	if j.cancel != nil {
		j.cancel(store.ErrCancelled)
	}
}

// margin is how long before the end of an attempt its handler's context ends, at the most.
const margin = 50 * time.Millisecond

// begin gives a job the lease of a claim that was sent at a time, and the end of all
// extensions, if that is not zero.
func (j *job[W]) begin(sent time.Time, lease, most time.Duration) {
	j.sent, j.lease = sent, lease
	if most > 0 {
		j.ends, j.margin = sent.Add(most), min(most/10, margin)
	}
}

// isStale reports whether a quarter of the time of its attempt has passed while a job was
// queued: what is released uses up no attempt, and comes again with all of its time.
func (j *job[W]) isStale() bool {
	return !j.ends.IsZero() && time.Since(j.queued) > j.ends.Sub(j.sent)/4
}

// overtime returns when the handler's context ends; zero: it does not.
func (j *job[W]) overtime() time.Time {
	if j.ends.IsZero() {
		return j.ends
	}
	return j.ends.Add(-j.margin)
}

// renew notes an extension for which a call was sent at a time. The engine's mutex is held.
func (j *job[W]) renew(sent time.Time, lease time.Duration) {
	j.sent, j.lease, j.confirm = sent, lease, 0
	if !j.ends.IsZero() {
		j.lease = min(lease, j.ends.Sub(sent))
	}
}

// isLast reports whether no extension can prolong the lease. The engine's mutex is held.
func (j *job[W]) isLast() bool {
	return !j.ends.IsZero() && !j.sent.Add(j.lease).Before(j.ends)
}

// next returns the length of the lease from the next extension on. The engine's mutex is held, or its receipts are locked.
func (j *job[W]) next() time.Duration { return cmp.Or(j.confirm, j.lease) }

// newEngine returns an engine with hands of its own.
func newEngine[W any](s source[W], t terms, rung chan struct{}, log *slog.Logger) *engine[W] {
	return new(hands[W]).engine(s, t, rung, log)
}

// engine returns an engine with these hands. All of them have the same terms, and run at the
// same time: run of each returns when all claim no more.
func (h *hands[W]) engine(s source[W], t terms, rung chan struct{}, log *slog.Logger) *engine[W] {
	e := &engine[W]{source: s, terms: t, hands: h, log: log, outages: log, rung: rung, leased: make(map[*job[W]]bool)}
	h.engines = append(h.engines, e)
	h.claims.Add(1)
	e.freed, e.handled, e.shorter = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	if t.claimsSettle {
		e.handled = e.freed
	}
	return e
}

// stopWork stops the work that is cancelled, unless it is done. It does not block.
func (e *engine[W]) stopWork(is func(*W) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.leased {
		if !j.handled && is(&j.work) {
			j.stop()
		}
	}
}

// withReceipt makes a call of a handler with the receipt that the work has now. It
// notes a lost lease.
func (e *engine[W]) withReceipt(j *job[W], call func(*W) error) error {
	e.receipts.RLock()
	defer e.receipts.RUnlock()
	work := j.work
	err := call(&work)
	e.noteEnd(j, err)
	return err
}

// noteEnd notes that the lease of a job is lost, or its work cancelled, if an error says so.
func (e *engine[W]) noteEnd(j *job[W], err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, notify.ErrLeaseLost):
		j.lose()
	case errors.Is(err, store.ErrCancelled):
		j.stop()
	}
}

// settled notes that a handler settled its work.
func (e *engine[W]) settled(j *job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j.settled = true
	delete(e.leased, j)
}

func (e *engine[W]) isSettled(j *job[W]) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.settled
}

// unhandled returns the leased work that is not done.
func (e *engine[W]) unhandled() (all []W) {
	e.receipts.RLock()
	defer e.receipts.RUnlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.leased {
		if !j.handled {
			all = append(all, j.work)
		}
	}
	return all
}

// drop forgets jobs that are settled, or cannot be.
func (e *engine[W]) drop(js []*job[W]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range js {
		delete(e.leased, j)
	}
}

// works returns the work of jobs.
func works[W any](js []*job[W]) []W {
	all := make([]W, len(js))
	for i, j := range js {
		all[i] = j.work
	}
	return all
}
