package carrier

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A call of the script should take Redis no longer than slowCall: above it the batch
// is halved, and below half of it doubled.
const (
	slowCall = time.Millisecond
	minBatch = 16
)

// beatsALook is of how many beats one looks at what changes slowly.
const beatsALook = 10

// After a rest of cold, Redis takes twice as long for a call as right behind another,
// since the processor has lost its code and data. So a longer sleep ends ahead of the
// due time, and by the time of a call: one that moves nothing warms Redis for the one in time.
const (
	cold  = 5 * time.Millisecond
	ahead = 700 * time.Microsecond
)

// A term lasts from an election until the lease is lost or given up.
type term struct {
	*mover
	token string
	epoch int64
	since time.Time       // of the election, by Redis's clock
	sent  record.Position // of the last broadcast before it

	batch  int    // adapted to the speed of Redis
	ready  string // cursor from which the next beat checks the topics with something ready
	clock  clock
	beaten time.Time     // of the last beat
	beat   time.Duration // between two beats
	beats  int           // of this term
	heir   string        // the standby that the shard is handed over to; empty: it is not

	lookout lookout
	sampler sampler

	fills     chan struct{}  // schedules are to be filled
	back      chan struct{}  // Redis's clock was set back
	unsettled *outage.Notice // schedules cannot be settled
	settled   *time.Duration // how late schedules may be, or they are settled before anything is carried; nil: it is carried in any case

	renewing sync.Mutex // guards what follows
	cursor   string     // of the schedules whose occurrences by older rules of zones are withdrawn next
	renewed  bool       // all are
}

func newTerm(m *mover, e store.Election) *term {
	return &term{
		mover: m, token: e.Token, epoch: e.Epoch, since: e.Since, sent: e.Sent, batch: m.o.Batch, ready: "0",
		beat: m.pace(), fills: make(chan struct{}, 1), back: make(chan struct{}, 1), settled: &lateNow,
		unsettled: outage.New(m.log, slog.LevelWarn, "cannot settle schedules; what they made is carried as it is", "settling schedules again"),
	}
}

// pace returns the time between two beats. In a calm store the lease says how rare they are.
func (m *mover) pace() time.Duration {
	if m.redis.stirred != nil {
		return m.o.Lease / 3
	}
	return min(reach.Heartbeat, m.o.Lease/3)
}

// carry moves messages until ctx ends or there is an heir, and returns nil, or until the
// term does, and returns a store.DeposedError, or an ErrUnfit: the store was upgraded to a format that this version does not know.
func (t *term) carry(ctx context.Context) error {
	nudges := make(chan int64, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	besideCtx, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { t.sweep(besideCtx) })
	beside.Go(func() { t.agree(besideCtx) })
	beside.Go(func() { t.forgetHistory(besideCtx) })
	beside.Go(func() { t.fillWhenDue(besideCtx) })
	beside.Go(func() { t.watchStopped(besideCtx) })
	beside.Go(func() {
		t.redis.nudges(besideCtx, func(e store.Event) {
			nudge(e, nudges)
			t.noteBeat(e)
			t.lookout.noteBeat(e) // last: then a nudge that was sent before the beat is in nudges already
		})
	})
	defer func() { t.report(t.lookout.held) }()
	retry := outage.NewRetry(t.log, "cannot carry; retrying", "carrying again")
	for ctx.Err() == nil {
		t.loop.Note()
		next, err := t.call(ctx)
		var deposed *store.DeposedError
		if errors.As(err, &deposed) || errors.Is(err, reach.ErrUnfit) {
			return err
		}
		if retry.Wait(ctx, err); err != nil {
			t.lookout.byBeat = false
			continue
		}
		if t.heir != "" {
			return nil
		}
		t.sleep(ctx, next, nudges)
	}
	return nil
}

// nudge passes on the earliest due time among nudges that the loop did not take yet.
// A renewed subscription may have missed one: it passes on 0.
func nudge(e store.Event, nudges chan int64) {
	var due int64
	switch e.Kind {
	case reach.Subscribed:
	case reach.Received:
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

// sleep returns in time for the next due time, in us by Redis's clock, or for the beat.
func (t *term) sleep(ctx context.Context, next int64, nudges <-chan int64) {
	t.lookout.noteSleep(next)
	beat := t.beaten.Add(t.beat)
	until := earlier(beat, t.wake(next))
	nudged := func(due int64) {
		t.lookout.noteNudge(due * 1000)
		until = earlier(until, t.wake(due*1000))
	}
	lastBeat := t.lookout.beat.Load()
	select {
	case due := <-nudges: // also if the sleep is over already
		nudged(due)
	default:
	}
	t.report(t.lookout.decided(lastBeat))
	timer := time.NewTimer(time.Until(until) - fine)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case due := <-nudges:
			nudged(due)
			timer.Reset(time.Until(until) - fine)
		case <-t.redis.stirred: // beside it more may be done now
			until = earlier(until, time.Now().Add(time.Microsecond))
			timer.Reset(time.Until(until) - fine)
		case <-timer.C:
			t.redis.rest(until)
			t.lookout.byBeat = until.Equal(beat)
			return
		}
	}
}

// wake returns when to call next for what is due at a time, in us by Redis's clock.
func (t *term) wake(due int64) time.Time {
	if t.o.Still && due > t.clock.redis {
		return t.beaten.Add(t.beat) // who sets the clock nudges
	}
	until := t.clock.when(due)
	if t.redis.stirred == nil && time.Until(until) > cold {
		return until.Add(-ahead - t.clock.trip)
	}
	return until
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// call carries once, and returns when the next thing is due, in us by Redis's clock;
// 0 means that more is due already.
func (t *term) call(whole context.Context) (next int64, err error) {
	ctx, cancel := context.WithTimeout(whole, callTimeout)
	defer cancel()
	began := time.Now()
	beats := began.Sub(t.beaten) >= t.beat
	looks := beats && t.beats%beatsALook == 0
	m, err := t.redis.carry(ctx, store.Carry{
		Token: t.token, Epoch: t.epoch, Lease: t.o.Lease,
		Batch: t.batch, KeepCount: t.o.KeepCount, KeepAge: t.o.KeepAge,
		Beat: beats, Look: looks, Ready: t.ready,
		History: !t.o.NoHistory, Samples: t.sampler.next, Settled: t.settled,
	})
	if err != nil {
		return 0, err
	}
	t.ready = m.Ready
	t.addHandovers(m.Handed, m.Lapsed)
	took := t.measure(m, began)
	if looks {
		t.setKept(m.Kept)
		t.notePolicy(m.Policy)
	}
	if beats {
		t.beaten = began
		t.beats++
		t.addRepeated(m.Repeated)
		t.noteTotals(ctx, m)
		if t.shares.giveTo(m.Standby) {
			t.heir = m.Standby.Name
		}
	} else { // a call with a beat takes longer, and says nothing about the batch
		t.adapt(took, m.Next == 0)
	}
	t.carried(m, took)
	t.noteSchedules(whole, m)
	return m.Next, nil
}

// measure gives the clock a sample, and returns how long a call took Redis.
func (t *term) measure(m store.Carried, began time.Time) time.Duration {
	ended := time.Now()
	if t.clock.sample(began, ended, m.Took, m.Now) < setBack {
		select {
		case t.back <- struct{}{}:
		default:
		}
	}
	if m.Took == 0 { // a beat does not say, and Redis 7.2 and newer stop the clock inside a script
		return max(ended.Sub(began)-t.clock.trip, 0)
	}
	return m.Took
}

// carried records and reports what a call moved.
func (t *term) carried(m store.Carried, took time.Duration) {
	c := Carried{Shard: t.shard.Number(), Moved: m.Moved, Lateness: lateness(m.Runs, m.Now+m.Took.Microseconds()), Took: took}
	t.addMoved(c)
	t.report(t.lookout.carried(c, m.Earliest, m.Now))
	t.logEnds("message died", m.Buried)
	t.logEnds("message dropped", m.Dropped) // as its publisher asked
}

// lateness returns how late runs of messages were that became ready at a time, in us
// by Redis's clock.
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

// notePolicy logs when a policy begins to let Redis evict messages, and when that
// ends. An empty policy evicts nothing.
func (m *mover) notePolicy(policy string) {
	switch before := m.policy; {
	case policy == before:
	case policy != "":
		m.log.Error("redis may evict messages, so publishes are refused; run CONFIG SET maxmemory-policy noeviction", "maxmemory-policy", policy)
	default:
		m.log.Info("redis evicts nothing any more", "maxmemory-policy", before)
	}
	m.policy = policy
}

// adapt adapts the batch so that a call stays short, for the sake of all others. It
// tries a larger one if more is due.
func (t *term) adapt(took time.Duration, more bool) {
	switch {
	case took > slowCall:
		t.batch = max(t.batch/2, minBatch)
	case took < slowCall/2 && more:
		t.batch = min(2*t.batch, t.o.Batch)
	}
	t.batch = min(t.batch, t.o.Batch)
}

// logEnds logs messages that died, or were dropped. One without a topic has its name as id.
func (t *term) logEnds(what string, ended []store.Buried) {
	for _, b := range ended {
		topic, id, err := record.SplitMember(b.Member)
		if err != nil {
			id = b.Member
		}
		t.o.Logger.Warn(what, "topic", topic, "id", id, "reason", b.Reason, "attempts", b.Attempts)
	}
}
