package subscribers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// claimerBound is how long a round of the loop takes at most, whatever happens to
// Redis: the subscription is renewed after half a minute without a beat, and that
// takes some seconds.
const claimerBound = 45 * time.Second

// ClaimerOptions are the options of a Claimer. The zero value is the default.
type ClaimerOptions struct {
	Name    string       // under which it claims, where a call names none; empty: HOST-PID
	Kind    string       // of its entry among the workers; empty: worker
	Version string       // of the program
	Logger  *slog.Logger // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
}

// A Claimer pulls messages. The methods of a [Delivery] settle one; AckMany and
// ReleaseMany settle many at once. Nothing extends a lease but Extend.
//
// While Run runs any number of callers may wait for messages of any topics. They
// share one inbox and one subscription: when a topic is rung its messages are claimed
// for its callers, first come, first served, in one call for many of them, unless the
// message came with the ring. A Claimer is safe for concurrent use.
//
// In a store of several shards a call asks the shards of its topics, and no other: one
// that is away delays nobody else.
type Claimer struct {
	*leases
	log     *slog.Logger
	inbox   reach.Inbox
	here    *presence
	callers callers
	loop    *progress.Loop // of the events of the subscription
	ran     atomic.Bool
	early   atomic.Int64    // callers that wait for Run to begin
	begun   chan struct{}   // closed when it does
	ended   context.Context // ends when Run does
	end     context.CancelFunc
	waiters waiters
	minAge  minAgeWaiters
	pings   pings

	mu     sync.Mutex
	broken map[store.Shard]error // why the subscription is down; none: it is up, or about to be
}

// ClaimerStats are what a Claimer does now, and counted since it was made.
type ClaimerStats struct {
	Waiting   int64     // callers that wait now
	Fallbacks int64     // times that the beat named a topic with a caller that waits, because the waiting list was lost; should stay zero
	Progress  time.Time // when its loop last completed a round; zero: the loop does not run

	SubscriberStats // a hand-over is dropped also if no caller waits any more
}

// errUnsubscribed is the error of a Claimer whose subscription to a shard is down.
var errUnsubscribed = errors.New("the subscription to redis is down")

// NewClaimer returns a claimer on a store. It starts nothing. The error is a
// notify.Fault.
func NewClaimer(s *notify.Store, options ...ClaimerOptions) (*Claimer, error) {
	o, err := store.Option(options)
	if err := errors.Join(store.CheckStore(s), err, fillName(&o.Name), fillKind(&o.Kind)); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ended, end := context.WithCancel(context.Background())
	c := &Claimer{
		leases: newLeases(s, o.Logger, o.Name), log: o.Logger, inbox: reach.NewInbox(notify.NewID(), true),
		loop: progress.New("claimer", s.Bear(claimerBound)), begun: make(chan struct{}), ended: ended, end: end,
		broken: make(map[store.Shard]error),
	}
	c.here = newPresence(s, store.Worker{Name: o.Name, Version: o.Version, Kind: o.Kind}, func() duty { return duty{callers: c.callers.workers()} })
	c.waiters.init(c.leases, c.inbox, ended)
	c.minAge = minAgeWaiters{leases: c.leases, ended: ended, wakeups: make(map[string]map[*wakeup]bool)}
	return c, nil
}

// Claim leases ready messages of a topic, oldest due first. If there is none it
// waits for one as the options say; none is no error. A message whose record is
// unreadable is buried with the reason. Errors: notify.ErrInvalid, also for a wait of
// more than three seconds if Run is not called within them; that of ctx, with which no
// message is leased; ErrStopping when Run ends; or that of the connection, after which
// messages may be leased until the lease expires. A call to Redis that is under way is
// not cut off when ctx ends: what it leased has to be known to be released.
func (c *Claimer) Claim(ctx context.Context, topic string, options ...ClaimOptions) ([]Delivery, error) {
	o, err := store.Option(options)
	return c.claimOf(ctx, []string{topic}, o, errors.Join(record.CheckTopic(topic), err))
}

// claimOf claims messages of any of some topics, unless there is a fault.
func (c *Claimer) claimOf(ctx context.Context, topics []string, o ClaimOptions, fault error) ([]Delivery, error) {
	if o.Max == 0 {
		o.Max = 1
	}
	if err := errors.Join(fault, o.check()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	end := c.callers.claims(o.Worker, topics)
	ds, err := c.claimBy(ctx, topics, o)
	end(longest(ds))
	return ds, err
}

// claimBy claims messages as options that were checked say.
func (c *Claimer) claimBy(ctx context.Context, topics []string, o ClaimOptions) ([]Delivery, error) {
	if err := c.checkShards(ctx, topics, o.Oldest); err != nil {
		return nil, err
	}
	wait := c.waiters.wait
	switch {
	case o.Wait == 0:
		return c.claimNow(ctx, topics, o)
	case o.MinAge > 0:
		wait = c.minAge.wait
	}
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	if running, err := c.awaitRun(ctx, o.Wait); err != nil {
		return nil, err
	} else if !running {
		return c.claimNow(ctx, topics, o)
	}
	ds, err := wait(ctx, topics, o, timer.C)
	return c.unlessEnded(ctx, ds, err)
}

// claimNow claims without waiting.
func (c *Claimer) claimNow(ctx context.Context, topics []string, o ClaimOptions) ([]Delivery, error) {
	ds, _, err := c.takeAny(context.WithoutCancel(ctx), topics, o)
	return c.unlessEnded(ctx, ds, err)
}

// awaitRun waits for some time until Run was called, perhaps in a goroutine that has
// not begun, and reports whether it was.
func (c *Claimer) awaitRun(ctx context.Context, wait time.Duration) (running bool, err error) {
	select {
	case <-c.begun:
		return true, nil
	default:
	}
	c.early.Add(1)
	defer c.early.Add(-1)
	timer := time.NewTimer(min(wait, reach.Patience))
	defer timer.Stop()
	select {
	case <-c.begun:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
		if wait > reach.Patience {
			return false, fault.New("wait", "wait: the claimer does not run, and nothing would wake it; call Run beside, or leave Wait out")
		}
		return false, nil
	}
}

// unlessEnded returns what was claimed. If ctx has ended it releases the messages: no
// caller takes them. What was acknowledged at once it returns all the same: that comes
// no more.
func (c *Claimer) unlessEnded(ctx context.Context, ds []Delivery, err error) ([]Delivery, error) {
	if ctx.Err() == nil || len(ds) > 0 && ds[0].acked {
		return ds, err
	}
	if len(ds) > 0 {
		err = c.releaseEach(context.WithoutCancel(ctx), ds)
	}
	return nil, errors.Join(ctx.Err(), err)
}

// Delivery returns a message that was claimed, also by another process: to settle
// it by the receipt of its lease.
func (c *Claimer) Delivery(topic, id string, receipt Receipt) *Delivery {
	return &Delivery{Topic: topic, ID: id, Receipt: receipt, by: c.leases}
}

// AckMany acknowledges messages of one topic and returns those whose lease was
// lost. Errors: notify.ErrInvalid, or that of the connection, after which some may be
// acknowledged.
func (c *Claimer) AckMany(ctx context.Context, topic string, ds []Delivery) (lost []Delivery, err error) {
	return c.ackMany(ctx, topic, ds)
}

// ReleaseMany releases messages of one topic as [Delivery.Release] does, and
// returns those whose lease was lost. Errors: notify.ErrInvalid, or that of the
// connection, after which some may be released.
func (c *Claimer) ReleaseMany(ctx context.Context, topic string, ds []Delivery) (lost []Delivery, err error) {
	return c.releaseMany(ctx, topic, reach.Inbox{}, 0, ds)
}

// Run wakes callers that wait, until ctx ends; then they get an ErrStopping, and it
// returns nil when the inbox has left all waiting lists. An unavailable Redis
// does not end it. The error is a notify.ErrInvalid: it was called before.
func (c *Claimer) Run(ctx context.Context) error {
	if !c.ran.CompareAndSwap(false, true) {
		return fault.New("call", "call of Run: the claimer ran already; make a new one")
	}
	c.loop.Note()
	defer c.loop.End()
	close(c.begun)
	subscribed, unsubscribe := context.WithCancel(context.WithoutCancel(ctx))
	defer unsubscribe()
	var receiving sync.WaitGroup
	receiving.Go(func() { c.subscribe(subscribed) })
	<-ctx.Done()
	c.end()
	c.waiters.stop()
	unsubscribe()
	receiving.Wait()
	c.waiters.stop() // what it received meanwhile
	c.minAge.stop()
	return nil
}

// subscribe receives until ctx ends.
func (c *Claimer) subscribe(ctx context.Context) {
	sums := newSummary(c.log)
	defer sums.Flush()
	watch := newWatch(c.store.Home(), sums.Logger())
	watch.begin()
	defer watch.end()
	c.store.Subscribe(ctx, func(e store.Event) {
		watch.note(e)
		c.here.note(ctx, e)
		c.loop.Note()
		c.receive(e)
	}, c.store.Every().InboxChannel(c.inbox), c.here.channel())
	c.here.end(ctx)
}

// Stats returns what the claimer does and counted so far.
func (c *Claimer) Stats() ClaimerStats {
	waiting := c.early.Load() + c.waiters.waiting.Load() + c.minAge.waiting.Load()
	return ClaimerStats{Waiting: waiting, Fallbacks: c.waiters.fallbacks.Load(), Progress: c.loop.Last(), SubscriberStats: c.waiters.stats.stats()}
}

// Alive returns an error if the loop of Run is stuck, for watchdogs. It is nil
// while Redis is unavailable, and while the claimer does not run.
func (c *Claimer) Alive() error { return c.loop.Alive() }

// receive passes on an event of the subscription. It does not block.
func (c *Claimer) receive(e store.Event) {
	switch e.Kind {
	case reach.Subscribed:
		c.setBroken(e.Shard(), nil)
		c.waiters.ringAll(e.Shard())
	case reach.Received:
		c.rung(e)
	case reach.Beat:
		c.waiters.beat(e.Topics())
	case reach.Broken:
		c.setBroken(e.Shard(), fmt.Errorf("%w: %w", errUnsubscribed, e.Err))
	}
}

// rung passes on what an inbox received.
func (c *Claimer) rung(e store.Event) {
	if h, is := e.Handover(); is {
		c.waiters.takeOver(h)
	} else if !c.pings.pong(e.Payload) && record.CheckTopic(e.Payload) == nil { // else a ping that was given up, or foreign
		c.waiters.ring(e.Payload)
	}
}

func (c *Claimer) setBroken(shard store.Shard, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken[shard] = err
}

// Ping sends a message to the claimer's own inbox over Redis's pub/sub, as a ring is
// sent, and waits for it, for three seconds at the most. It fails at a replica, which
// accepts no claim. It does so in each shard at once. Errors: that of a subscription which is down, of
// the connection or of ctx; where only some of several shards fail a store.MissingError, which names them.
func (c *Claimer) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reach.Silence)
	defer cancel()
	_, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) (struct{}, error) {
		return struct{}{}, c.ping(ctx, shard)
	})
	return err
}

// ping is Ping for one shard.
func (c *Claimer) ping(ctx context.Context, shard store.Shard) error {
	c.mu.Lock()
	broken := c.broken[shard]
	c.mu.Unlock()
	if broken != nil {
		return broken
	}
	return c.pings.ping(ctx, shard, c.inbox)
}
