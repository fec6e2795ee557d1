package carrier

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
)

var (
	//go:embed carry.lua
	carrySource string
	carryScript = notify.NewScript("carry", carrySource)
)

// A call of the script should take Redis no longer than slowCall; the batch is
// halved above it and doubled below half of it.
const (
	slowCall = time.Millisecond
	minBatch = 16
)

// A deposedError ends a term: the lease is another's, or ran out.
type deposedError struct{ holder string } // the token of who has it; empty: nobody

func (e deposedError) Error() string {
	if e.holder == "" {
		return "the lease ran out"
	}
	return "the lease is another's"
}

// A term is one election's time in office.
type term struct {
	*Carrier
	token string
	epoch int64

	batch  int    // adapted to how fast Redis is
	cursor string // over the topics with something ready
	rank   int64  // over the logs that are old
	clock  clock
	beaten time.Time
	beat   time.Duration
	policy string // by which Redis may evict messages; empty: it does not

	lookout lookout
}

func newTerm(c *Carrier, token string, epoch int64) *term {
	return &term{
		Carrier: c, token: token, epoch: epoch, batch: c.o.Batch, cursor: "0",
		beat: min(notify.Heartbeat, c.o.Lease/3),
	}
}

// carry moves messages until ctx ends (nil) or the term does (a deposedError).
func (t *term) carry(ctx context.Context) error {
	nudges := make(chan int64, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	besideCtx, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { t.sweep(besideCtx) })
	beside.Go(func() {
		t.store.Hear(besideCtx, func(e notify.Event) {
			nudge(e, nudges)
			t.hears(e)
			t.lookout.listens(e) // behind it: a nudge that was sent before the beat is there already
		}, t.store.Keys().Head())
	})
	defer func() { t.tell(t.lookout.held) }()
	var pause backoff.Pause
	for ctx.Err() == nil {
		t.around()
		next, err := t.call(ctx)
		switch {
		case errors.As(err, &deposedError{}):
			return err
		case err != nil:
			if !pause.Waited() && ctx.Err() == nil {
				t.o.Logger.Error("cannot carry, trying on", "error", err)
			}
			pause.Wait(ctx)
			t.lookout.byBeat = false
			continue
		case pause.Waited():
			t.o.Logger.Info("carrying again")
			pause.Reset()
		}
		t.sleep(ctx, next, nudges)
	}
	return nil
}

// nudge passes on the earliest due time that was heard of and not yet seen to;
// a connection that stands anew may have missed one.
func nudge(e notify.Event, nudges chan int64) {
	var due int64
	switch e.Kind {
	case notify.Subscribed:
	case notify.Heard:
		due, _ = strconv.ParseInt(e.Payload, 10, 64)
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

// call runs the script once and returns when the next thing is due, in us by
// Redis's clock; 0: more is due already.
func (t *term) call(ctx context.Context) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := t.store.Keys()
	began := time.Now()
	channel, beats := "", began.Sub(t.beaten) >= t.beat
	if beats {
		channel = keys.Beat()
	}
	reply, err := t.store.Run(ctx, carryScript, []string{keys.Carrier(), keys.Logs(), keys.Handed()},
		t.token, t.o.Lease.Milliseconds(), t.batch, t.o.MaxAttempts, keys.Base(), channel, t.epoch, t.cursor,
		t.rank, t.o.KeepCount, t.o.KeepAge.Milliseconds())
	if err != nil {
		return 0, err
	}
	if mine, _ := reply[0].(int64); mine == 0 {
		holder, _ := reply[1].(string)
		return 0, deposedError{holder}
	}
	if beats {
		t.beaten = began
	}
	moved, _ := reply[1].(int64)
	wait, errWait := number(reply[2])
	now, errNow := number(reply[3])
	if err := errors.Join(errWait, errNow); err != nil {
		return 0, fmt.Errorf("carry script: %w", err)
	}
	us, _ := reply[4].(int64)
	took, ended := time.Duration(us)*time.Microsecond, time.Now()
	t.clock.sample(began, ended, took, now)
	if took == 0 { // Redis 7.2 and newer stop the clock inside a script
		took = max(ended.Sub(began)-t.clock.trip, 0)
	}
	if !beats { // whose time is not the batch's
		t.adapt(took, wait == 0)
	}
	t.cursor, _ = reply[5].(string)
	t.rank, _ = reply[6].(int64)
	if kept, _ := reply[7].(int64); kept >= 0 {
		t.keeps(kept)
	}
	runs, _ := reply[9].([]any)
	at := now + us
	m := Carried{Moved: int(moved), Lateness: lateness(runs, at), Took: took}
	t.moved(m)
	t.tell(t.lookout.carried(m, dueOf(reply[8]), now))
	repeated, _ := reply[10].(int64)
	t.repeats(repeated)
	if beats {
		policy, _ := reply[11].(string)
		t.evicts(policy)
	}
	t.report(reply[12:])
	switch {
	case wait < 0:
		return never, nil
	case wait == 0: // more is due already: since when, only the script knows
		return 0, nil
	}
	return now + wait, nil
}

// lateness reads the due times, each with how many messages of a topic had it,
// of what was ready at a time, in us by Redis's clock.
func lateness(runs []any, at int64) []Lateness {
	of := make(map[time.Duration]int, len(runs)/2)
	for i := 0; i+1 < len(runs); i += 2 {
		n, _ := runs[i+1].(int64)
		of[max(time.Duration(at-dueOf(runs[i]))*time.Microsecond, 0)] += int(n)
	}
	all := make([]Lateness, 0, len(of))
	for late, n := range of {
		all = append(all, Lateness{Late: late, N: n})
	}
	slices.SortFunc(all, func(a, b Lateness) int { return cmp.Compare(b.Late, a.Late) })
	return all
}

// dueOf reads a score in ms, and returns it in us; what is no time of ours is
// that nearest to it, and what is missing is never.
func dueOf(score any) int64 {
	text, _ := score.(string)
	ms, err := strconv.ParseFloat(text, 64) // another program's may have a fraction
	if err != nil || ms != ms {
		return never
	}
	return int64(min(max(ms*1000, 0), never))
}

// number reads a number that a script wrote as text.
func number(reply any) (int64, error) {
	text, _ := reply.(string)
	return strconv.ParseInt(text, 10, 64)
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

// report tells of what the script buried: member, reason and attempts of each.
func (t *term) report(buried []any) {
	for i := 0; i+2 < len(buried); i += 3 {
		member, _ := buried[i].(string)
		reason, _ := buried[i+1].(string)
		attempts, _ := buried[i+2].(int64)
		death := Death{Reason: reason, Attempts: int(attempts)}
		var err error
		if death.Topic, death.ID, err = notify.SplitMember(member); err != nil {
			death.ID = member
		}
		t.o.Logger.Warn("message died", "topic", death.Topic, "id", death.ID, "reason", reason, "attempts", attempts)
		if t.o.OnDead != nil {
			t.o.OnDead(death)
		}
	}
}
