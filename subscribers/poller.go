package subscribers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
)

// MaxWait is the longest wait of a [Poller.Claim].
const MaxWait = 5 * time.Minute

// claimerBound is how long the loop takes at most to come around, whatever becomes
// of Redis: the connection is renewed after half a minute without a beat, and that
// takes some seconds.
const claimerBound = 45 * time.Second

// failover is how long a poll waits on while Redis cannot be asked: longer than
// it takes to put another master in the place of one.
const failover = 10 * time.Second

// PollerOptions are the options of a Poller. The zero value is the default.
type PollerOptions struct {
	Logger *slog.Logger // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
}

// ClaimOptions say what a [Poller.Claim] takes.
type ClaimOptions struct {
	Max    int           // messages at the most
	Lease  time.Duration // of the messages; zero: that of the topic's settings
	MinAge time.Duration // for how long they are due at the least
	Wait   time.Duration // for how long to wait until there is one; zero: not at all
}

// A Poller lets any number of callers wait for messages of any topics. They
// share one inbox and one connection to Redis: a ring for a topic has the
// messages claimed for those who wait for it, first come, first served, in one
// call for many of them. It is safe for concurrent use while Run runs.
type Poller struct {
	*Claimer
	o     PollerOptions
	inbox string

	waiting   atomic.Int64
	loop      *progress.Loop // of the events of the connection
	fallbacks atomic.Int64
	ended     context.Context // ends when Run does,
	end       context.CancelFunc

	mu     sync.Mutex
	heard  bool                     // the connection stands
	queues map[string]*queue        // by topic
	pings  map[string]chan struct{} // that were sent and not heard yet, by payload
	bells  map[chan struct{}]string // of those who wait for messages of an age, with the topic
	deafen context.CancelFunc       // ends what rings the bells; nil while there are none
	tasks  sync.WaitGroup           // queues that are served, and what rings the bells
}

// A queue is who waits for a topic. It is guarded by Poller.mu.
type queue struct {
	topic  string
	polls  []*poll // in the order in which they came
	served bool    // a goroutine sees to it
	rung   bool    // something may be ready
	beaten bool    // and it was a beat that said so, out of the blue
	stands bool    // the inbox may stand in the waiting list
}

// A poll is one caller that waits.
type poll struct {
	max   int
	lease time.Duration
	asked bool        // something was claimed for it; guarded by Poller.mu
	fault error       // why Redis could not be asked, the last time; guarded by Poller.mu
	since time.Time   // of the first such fault; guarded by Poller.mu
	done  chan polled // holds one
}

// polled is what a poll got.
type polled struct {
	deliveries []Delivery
	err        error
}

// NewPoller returns a poller on a store. It starts nothing.
func NewPoller(s *notify.Store, o PollerOptions) *Poller {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ended, end := context.WithCancel(context.Background())
	return &Poller{
		Claimer: NewClaimer(s), o: o, inbox: s.Only().InboxChannel(notify.NewID()),
		ended: ended, end: end, queues: make(map[string]*queue),
		pings: make(map[string]chan struct{}), bells: make(map[chan struct{}]string),
		loop: progress.New("claimer", claimerBound),
	}
}

// Run listens for rings until ctx ends; then those who wait get an ErrStopping,
// and it returns when the inbox has left all waiting lists. It is called once.
func (p *Poller) Run(ctx context.Context) {
	p.loop.Note()
	ear := newEar(p.store, p.o.Logger)
	ear.begin()
	p.store.Hear(ctx, func(e store.Event) {
		ear.note(e)
		p.hear(e)
	}, p.inbox)
	ear.end()
	p.mu.Lock()
	p.heard = false
	p.end()
	for _, q := range p.queues {
		for _, one := range q.polls {
			one.done <- polled{err: ErrStopping}
		}
		q.polls = nil
		p.serve(q)
	}
	if p.deafen != nil {
		p.deafen()
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

// hasEnded reports whether Run has ended: nothing is begun any more. The mutex is held.
func (p *Poller) hasEnded() bool { return p.ended.Err() != nil }

// Waiting returns how many callers wait now.
func (p *Poller) Waiting() int64 { return p.waiting.Load() }

// Fallbacks returns how often the carrier's beat told of messages for somebody
// who waited, because the waiting list was lost. It should stay zero.
func (p *Poller) Fallbacks() int64 { return p.fallbacks.Load() }

// Claim leases up to o.Max ready messages of a topic that are due for o.MinAge
// at least, oldest due first. If there is none it waits for one; none within
// o.Wait is no error. A message whose record is unreadable is buried with the
// reason. Errors: notify.ErrInvalid; that of ctx, with which no message is
// leased; ErrStopping when Run ends; or that of the connection, after which
// messages may be leased until the lease expires. A call to Redis that is under
// way is not cut off when ctx ends: what it leased has to be known to be released.
func (p *Poller) Claim(ctx context.Context, topic string, o ClaimOptions) ([]Delivery, error) {
	if err := store.Within("wait", "wait", o.Wait, 0, MaxWait); err != nil {
		return nil, err
	}
	if err := checkClaim(topic, o.Max, o.Lease, o.MinAge); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ds, err := p.claimWithin(ctx, topic, o)
	if ctx.Err() == nil {
		return ds, err
	}
	if len(ds) > 0 { // they came at the last moment, and nobody takes them
		_, err = p.Release(context.WithoutCancel(ctx), topic, ds)
	}
	return nil, errors.Join(ctx.Err(), err)
}

// claimWithin is Claim for what was checked. It may return messages though ctx has ended.
func (p *Poller) claimWithin(ctx context.Context, topic string, o ClaimOptions) ([]Delivery, error) {
	if o.Wait == 0 {
		ds, _, err := p.take(context.WithoutCancel(ctx), topic, o.Max, o.Lease, o.MinAge)
		return ds, err
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	if o.MinAge > 0 {
		return p.waitAged(ctx, topic, o, timer.C)
	}
	one := &poll{max: o.Max, lease: o.Lease, done: make(chan polled, 1)}
	if err := p.enter(topic, one); err != nil {
		return nil, err
	}
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.leave(topic, one)
}

// enter lets a poll wait.
func (p *Poller) enter(topic string, one *poll) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasEnded() {
		return ErrStopping
	}
	q := p.queue(topic)
	q.polls = append(q.polls, one)
	q.rung = true
	p.serve(q)
	return nil
}

// queue returns the queue of a topic. The mutex is held.
func (p *Poller) queue(topic string) *queue {
	q := p.queues[topic]
	if q == nil {
		q = &queue{topic: topic}
		p.queues[topic] = q
	}
	return q
}

// leave ends the wait of a poll, and returns what it got at the last moment.
func (p *Poller) leave(topic string, one *poll) ([]Delivery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	default:
	}
	q := p.queues[topic]
	q.polls = slices.DeleteFunc(q.polls, func(other *poll) bool { return other == one })
	p.serve(q)
	return nil, one.fault
}

// serve has a goroutine see to a queue, if there is something to do. The mutex is held.
func (p *Poller) serve(q *queue) {
	if !q.served && q.busy() {
		q.served = true
		p.tasks.Go(func() { p.see(q) })
	}
}

// busy reports whether there is something to do: claim for those who wait, or
// leave the waiting list when nobody does. The mutex is held.
func (q *queue) busy() bool { return len(q.polls) > 0 && q.rung || len(q.polls) == 0 && q.stands }

// see claims for a queue while it is rung, and leaves the waiting list when
// nobody waits any more: who is rung then is somebody else.
func (p *Poller) see(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pause backoff.Pause
	for q.busy() {
		switch {
		case len(q.polls) == 0:
			p.quit(q, nil)
		case p.ask(q):
			pause.Reset()
		default:
			p.mu.Unlock()
			pause.Wait(p.ended)
			p.mu.Lock()
		}
	}
	q.served = false
	if len(q.polls) == 0 {
		delete(p.queues, q.topic)
	}
}

// ask claims for those who wait. It reports whether Redis could be asked: if not,
// they wait on. The mutex is held, but while Redis is called.
func (p *Poller) ask(q *queue) (asked bool) {
	max, lease := q.wanted()
	beaten := q.beaten
	q.rung, q.beaten, q.stands = false, false, false
	p.mu.Unlock()
	got, err := p.claim(context.Background(), q.topic, max, lease, 0, p.inbox)
	p.mu.Lock()
	q.stands = q.stands || got.short || err != nil
	q.rung = q.rung || !got.short
	if err != nil {
		q.fail(lease, err)
		return !store.NotExecuted(err)
	}
	if beaten && len(got.deliveries) > 0 {
		p.fallbacks.Add(1)
	}
	if left := q.deal(got.deliveries, lease); len(left) > 0 {
		p.quit(q, left)
	}
	if len(got.unreadable) > 0 {
		p.mu.Unlock()
		p.buryUnreadable(context.Background(), got.unreadable)
		p.mu.Lock()
	}
	return true
}

// quit leaves the waiting list and gives messages back that nobody takes any
// more: others are rung for them, and those who came meanwhile claim again. The
// mutex is held, but while that is done.
func (p *Poller) quit(q *queue, ds []Delivery) {
	q.stands, q.rung = false, true
	p.mu.Unlock()
	defer p.mu.Lock()
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	_, err := p.release(ctx, q.topic, p.inbox, ds)
	if err != nil && len(ds) > 0 { // where it only leaves, the next ring has it leave again
		p.o.Logger.Warn("cannot release messages, their leases run out by themselves", "topic", q.topic, "messages", len(ds), "error", err)
	}
}

// wanted returns how many messages to claim now under which lease: for the
// first poll, and for all those of the same lease. The mutex is held.
func (q *queue) wanted() (max int, lease time.Duration) {
	lease = q.polls[0].lease
	for _, one := range q.polls {
		if one.lease == lease {
			max += one.max
			one.asked = true
		}
	}
	return min(max, MaxClaim), lease
}

// deal hands out what was claimed under a lease, and returns what nobody takes
// any more. The mutex is held.
func (q *queue) deal(ds []Delivery, lease time.Duration) (left []Delivery) {
	q.polls = slices.DeleteFunc(q.polls, func(one *poll) bool {
		one.fault = nil
		if one.lease != lease || len(ds) == 0 {
			return false
		}
		n := min(one.max, len(ds))
		one.done <- polled{deliveries: ds[:n:n]}
		ds = ds[n:]
		return true
	})
	return ds
}

// fail ends the wait of those for whom a claim failed. The others, who came
// meanwhile or want another lease, have one of their own. Where Redis could not
// be asked at all they wait on, and are told only if that lasts until their wait
// is over, or for longer than a failover takes. The mutex is held.
func (q *queue) fail(lease time.Duration, err error) {
	q.polls = slices.DeleteFunc(q.polls, func(one *poll) bool {
		if one.lease != lease || !one.asked {
			return false
		}
		if one.fault == nil {
			one.since = time.Now()
		}
		if one.fault = err; store.NotExecuted(err) && time.Since(one.since) < failover {
			return false
		}
		one.done <- polled{err: err}
		return true
	})
}

// Alive returns an error if the poller is stuck, for watchdogs: nothing came of its
// connection for 45 s, no failure either. It is nil while it does not run.
func (p *Poller) Alive() error { return p.loop.Alive() }

// hear takes note of an event of the connection. It does not block.
func (p *Poller) hear(e store.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loop.Note()
	switch e.Kind {
	case store.Subscribed:
		p.heard = true
		for _, q := range p.queues {
			q.rung = true
			p.serve(q)
		}
	case store.Heard:
		p.ring(e.Payload)
	case store.Beat:
		for _, topic := range e.Topics() {
			if q := p.queues[topic]; q != nil {
				q.beaten = q.beaten || q.stands && !q.served // it was thought to stand in the list, and at rest
				q.rung = true
				p.serve(q)
			}
		}
	case store.Silent, store.Broken:
		p.heard = false
	}
}

// ring takes note of what the inbox got: a ping, or a topic. The inbox stands in
// the waiting list of that. If nobody waits for it any more, which happens when
// the last one has just left or when leaving failed, it leaves (again), so that
// somebody else is rung. The mutex is held.
func (p *Poller) ring(payload string) {
	if pong := p.pings[payload]; pong != nil {
		delete(p.pings, payload)
		close(pong)
		return
	}
	if store.CheckTopic(payload) != nil {
		return // a ping that was given up, or foreign
	}
	q := p.queue(payload)
	q.rung, q.stands = true, true
	p.serve(q)
}

// ErrDeaf is the error of a Poller whose connection to Redis does not stand.
var ErrDeaf = errors.New("the connection that listens to redis does not stand")

// Ping sends itself a message over Redis's pub/sub, the way that a ring takes,
// and waits for it, for store.Silence at the most. Before that it removes what
// is not there: a replica publishes, too, and lets nobody claim. Errors: ErrDeaf,
// or that of the connection or ctx.
func (p *Poller) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, store.Silence)
	defer cancel()
	payload := pingPrefix + notify.NewID()
	pong := make(chan struct{})
	p.mu.Lock()
	heard := p.heard
	p.pings[payload] = pong
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pings, payload)
	}()
	if !heard {
		return ErrDeaf
	}
	ears, err := p.store.Only().Ping(ctx, p.inbox, payload)
	switch {
	case err != nil:
		return fmt.Errorf("ping: %w", err)
	case ears == 0:
		return ErrDeaf
	}
	select {
	case <-pong:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ping: %w: %w", ErrDeaf, ctx.Err())
	}
}

// pingPrefix is what the payload of a ping begins with: a topic has no colon.
const pingPrefix = "ping:"
