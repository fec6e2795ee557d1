package carrier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// A call of the script should take Redis no longer than slowCall; the batch is
// halved above it and doubled below half of it.
const (
	slowCall = time.Millisecond
	minBatch = 16
)

// A term is one election's time in office.
type term struct {
	*Carrier
	token string
	epoch int64

	batch  int    // adapted to how fast Redis is
	ready  string // from where on the next beat looks at the topics with something ready
	old    int64  // from where on it looks at the logs that are old
	clock  clock
	beaten time.Time
	beat   time.Duration
	policy string // by which Redis may evict messages; empty: it does not

	lookout lookout
}

func newTerm(c *Carrier, token string, epoch int64) *term {
	return &term{
		Carrier: c, token: token, epoch: epoch, batch: c.o.Batch, ready: "0",
		beat: min(store.Heartbeat, c.o.Lease/3),
	}
}

// carry moves messages until ctx ends (nil) or the term does (a store.DeposedError).
func (t *term) carry(ctx context.Context) error {
	nudges := make(chan int64, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	besideCtx, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { t.sweep(besideCtx) })
	beside.Go(func() {
		t.store.Hear(besideCtx, func(e store.Event) {
			nudge(e, nudges)
			t.hears(e)
			t.lookout.listens(e) // behind it: a nudge that was sent before the beat is there already
		}, t.store.Only().HeadChannel())
	})
	defer func() { t.tell(t.lookout.held) }()
	retry := outage.NewRetry(t.o.Logger, "cannot carry; retrying", "carrying again")
	for ctx.Err() == nil {
		t.loop.Note()
		next, err := t.call(ctx)
		var deposed *store.DeposedError
		if errors.As(err, &deposed) {
			return err
		}
		if retry.Wait(ctx, err); err != nil {
			t.lookout.byBeat = false
			continue
		}
		t.sleep(ctx, next, nudges)
	}
	return nil
}

// nudge passes on the earliest due time that was heard of and not yet seen to;
// a connection that stands anew may have missed one.
func nudge(e store.Event, nudges chan int64) {
	var due int64
	switch e.Kind {
	case store.Subscribed:
	case store.Heard:
		due = e.Number()
	default:
		return
	}
	select {
	case earlier := <-nudges:
		due = min(due, earlier)
	default:
	}
	nudges <- due // never blocks: this is the only writer
}

// sleep returns in time for what is due next, in us by Redis's clock, or for the beat.
func (t *term) sleep(ctx context.Context, next int64, nudges <-chan int64) {
	t.lookout.sleeps(next)
	beat := t.beaten.Add(t.beat)
	until := earlier(beat, t.clock.when(next))
	hear := func(due int64) {
		t.lookout.hears(due * 1000)
		until = earlier(until, t.clock.when(due*1000))
	}
	heard := t.lookout.beat.Load()
	select {
	case due := <-nudges: // before a sleep that is over already
		hear(due)
	default:
	}
	t.tell(t.lookout.decided(heard))
	timer := time.NewTimer(time.Until(until) - fine)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case due := <-nudges:
			hear(due)
			timer.Reset(time.Until(until) - fine)
		case <-timer.C:
			sleepFine(until)
			t.lookout.byBeat = until.Equal(beat)
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// call carries once and returns when the next thing is due, in us by
// Redis's clock; 0: more is due already.
func (t *term) call(ctx context.Context) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	beats := began.Sub(t.beaten) >= t.beat
	m, err := t.store.Only().Carry(ctx, store.Carry{
		Token: t.token, Epoch: t.epoch, Lease: t.o.Lease,
		Batch: t.batch, KeepCount: t.o.KeepCount, KeepAge: t.o.KeepAge,
		Beat: beats, Ready: t.ready, Old: t.old,
	})
	if err != nil {
		return 0, err
	}
	t.ready, t.old = m.Ready, m.Old
	took := t.times(m, began)
	if beats {
		t.beaten = began
		t.keeps(m.Kept)
		t.repeats(m.Repeated)
		t.evicts(m.Policy)
	} else { // whose time is not the batch's
		t.adapt(took, m.Next == 0)
	}
	t.carried(m, took)
	return m.Next, nil
}

// times has the clock learn from a call, and returns how long it took Redis.
func (t *term) times(m store.Carried, began time.Time) time.Duration {
	ended := time.Now()
	t.clock.sample(began, ended, m.Took, m.Now)
	if m.Took == 0 { // Redis 7.2 and newer stop the clock inside a script
		return max(ended.Sub(began)-t.clock.trip, 0)
	}
	return m.Took
}

// carried tells what a call moved.
func (t *term) carried(m store.Carried, took time.Duration) {
	c := Carried{Moved: m.Moved, Lateness: lateness(m.Runs, m.Now+m.Took.Microseconds()), Took: took}
	t.moved(c)
	t.tell(t.lookout.carried(c, m.Earliest, m.Now))
	t.report(m.Buried)
}

// lateness returns how late runs of messages were that were ready at a time, in
// us by Redis's clock.
func lateness(runs []store.Run, at int64) []Lateness {
	of := make(map[time.Duration]int, len(runs))
	for _, run := range runs {
		of[max(time.Duration(at-run.Due)*time.Microsecond, 0)] += run.N
	}
	all := make([]Lateness, 0, len(of))
	for late, n := range of {
		all = append(all, Lateness{Late: late, N: n})
	}
	slices.SortFunc(all, func(a, b Lateness) int { return cmp.Compare(b.Late, a.Late) })
	return all
}

// evicts tells when Redis begins to evict what it holds, by a policy, and when it
// ends; empty: it does not.
func (t *term) evicts(policy string) {
	switch before := t.policy; {
	case policy == before:
	case policy != "":
		t.o.Logger.Error("redis may evict messages, so publishes are refused; run CONFIG SET maxmemory-policy noeviction", "maxmemory-policy", policy)
	default:
		t.o.Logger.Info("redis evicts nothing any more", "maxmemory-policy", before)
	}
	t.policy = policy
}

// adapt keeps one call short for everybody else who calls Redis. It tries a
// larger batch where more is due.
func (t *term) adapt(took time.Duration, more bool) {
	switch {
	case took > slowCall:
		t.batch = max(t.batch/2, minBatch)
	case took < slowCall/2 && more:
		t.batch = min(2*t.batch, t.o.Batch)
	}
	t.batch = min(t.batch, t.o.Batch)
}

// report tells of messages that died.
func (t *term) report(buried []store.Buried) {
	for _, b := range buried {
		death := Death{Reason: b.Reason, Attempts: b.Attempts}
		var err error
		if death.Topic, death.ID, err = store.SplitMember(b.Member); err != nil {
			death.ID = b.Member
		}
		t.o.Logger.Warn("message died", "topic", death.Topic, "id", death.ID, "reason", b.Reason, "attempts", b.Attempts)
		if t.o.OnDead != nil {
			t.o.OnDead(death)
		}
	}
}
