package faults_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// lease is the lease of messages and broadcasts.
const lease = time.Second

// The bounds of the backoff between attempts.
const (
	quickest = 50 * time.Millisecond
	slowest  = 300 * time.Millisecond
)

var errNotThisTime = errors.New("not this time")

// logger returns a logger to the log of the process.
func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

// dice are random numbers for several goroutines.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rnd: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

// orderly is the worker that handles the ordered topic.
const orderly = "worker-2"

// work handles messages, of some topics with a Subscriber and of others with a
// Poller, until ctx ends.
func (a *actor) work(ctx context.Context) error {
	dice := newDice(a.random)
	sub, err := subscribers.NewSubscriber(a.store, subscribers.SubscriberOptions{Grace: 2 * lease, Logger: logger()})
	if err != nil {
		return err
	}
	for _, topic := range slices.Concat(handledTopics, sharedHandled) {
		handle := func(ctx context.Context, d *subscribers.Delivery) error { return a.handle(ctx, d, dice, true) }
		if err := sub.Handle(topic, handle, subscribers.HandleOptions{Concurrency: 16}); err != nil {
			return err
		}
	}
	if err := a.handleCopies(sub, dice); err != nil {
		return err
	}
	if a.name == orderly {
		handle := func(ctx context.Context, d *subscribers.Delivery) error { return a.handle(ctx, d, dice, false) }
		if err := sub.Handle(orderedTopic, handle, subscribers.HandleOptions{Concurrency: 1}); err != nil {
			return err
		}
	}
	handle := func(_ context.Context, d *subscribers.Delivery) error { return a.handleSlowly(d, dice) }
	if err := sub.Handle(slowTopic, handle, subscribers.HandleOptions{Concurrency: hands}); err != nil {
		return err
	}
	claimer, err := subscribers.NewClaimer(a.store, subscribers.ClaimerOptions{Logger: logger()})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { _ = claimer.Run(ctx) })
	for range 4 {
		for _, topic := range slices.Concat(claimedTopics, []string{keyedTopic, limitedTopic, byHandTopic}) {
			c := &claiming{actor: a, dice: dice, claimer: claimer, topic: topic}
			all.Go(func() { c.run(ctx) })
		}
		c := &claiming{actor: a, dice: dice, claimer: claimer}
		all.Go(func() { c.claimAny(ctx) })
		all.Go(func() { c.claimOnce(ctx) })
	}
	say("ready")
	err = sub.Run(ctx)
	all.Wait()
	return err
}

// hands is the concurrency of handleSlowly. A worker claims nothing ahead where handlers take
// as long: so the number of messages that it has asked for is known.
const hands = 2

// handleSlowly handles a message in at least 90 ms, whatever becomes of it.
func (a *actor) handleSlowly(d *subscribers.Delivery, dice *dice) (err error) {
	began := handling(d)
	began.Hands = hands
	op := a.Call(began)
	time.Sleep(time.Duration(90+dice.roll(20)) * time.Millisecond)
	if dice.roll(20) == 0 {
		err = errNotThisTime
		op.End(history.No, history.Record{Error: text(err)})
	} else {
		op.End(history.OK, history.Record{})
	}
	return err
}

// handling returns the record of a message for a handler. A hand-over may be confirmed, by a new receipt, before its handler begins.
func handling(d *subscribers.Delivery) history.Record {
	r := history.Record{
		Op: history.Handle, Topic: d.Topic, ID: d.ID, Due: d.Due.UnixMilli(), Attempt: d.Attempt,
		Receipt: int64(d.Receipt), Lease: d.Lease.Milliseconds(), Handed: d.HandedOver, Version: versionOf(d.Topic, d.Body),
	}
	if confirmed := d.Until().UnixMicro() == r.Receipt; !confirmed {
		r.Lease = record.HandoverLease.Milliseconds()
	}
	return r
}

// handle is the handler of a Subscriber, which sometimes takes long.
func (a *actor) handle(ctx context.Context, d *subscribers.Delivery, dice *dice, mayTakeLong bool) error {
	op := a.Call(handling(d))
	var err error
	switch n := dice.roll(100); {
	case n < 5:
		err = errNotThisTime
	case n < 6:
		err = subscribers.ErrBury
	case n < 7 && mayTakeLong:
		err = subscribers.Snooze(time.Duration(dice.roll(200)) * time.Millisecond)
	case n < 9 && mayTakeLong: // longer than a lease, which the Subscriber extends
		rest(ctx, lease+time.Duration(dice.roll(300))*time.Millisecond)
	default:
		rest(ctx, time.Duration(dice.roll(inHand(*d)))*time.Millisecond)
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
		op.End(history.Unknown, history.Record{Error: text(err)})
	case errors.Is(err, subscribers.ErrBury):
		op.End(history.No, history.Record{Error: text(err), State: "dead"})
	case err != nil:
		op.End(history.No, history.Record{Error: text(err)})
	default:
		op.End(history.OK, history.Record{})
	}
	return err
}

// claiming claims messages of a topic and settles them.
type claiming struct {
	*actor
	*dice
	claimer *subscribers.Claimer
	topic   string
}

// run claims until ctx ends.
func (c *claiming) run(ctx context.Context) {
	for ctx.Err() == nil {
		op := c.Call(history.Record{Op: history.Claim, Topic: c.topic, Lease: lease.Milliseconds()})
		ds, err := c.claimer.Claim(ctx, c.topic, subscribers.ClaimOptions{Max: 1 + c.roll(4), Lease: lease, Wait: time.Duration(c.roll(2)) * lease / 2})
		c.took(ctx, op, ds, err)
	}
}

// took records what a claim took, and settles it.
func (c *claiming) took(ctx context.Context, op *history.Operation, ds []subscribers.Delivery, err error) {
	for _, d := range ds {
		op.Took(taken(d))
	}
	op.End(phase(err), history.Record{Count: len(ds), Error: text(err)})
	for _, d := range ds {
		c.settle(context.WithoutCancel(ctx), d)
	}
	if len(ds) == 0 {
		rest(ctx, time.Duration(c.roll(100))*time.Millisecond)
	}
}

// taken returns the record of a claimed message.
func taken(d subscribers.Delivery) history.Record {
	return history.Record{
		Topic: d.Topic, ID: d.ID, Due: d.Due.UnixMilli(), Attempt: d.Attempt,
		Receipt: int64(d.Receipt), Lease: d.Lease.Milliseconds(), Handed: d.HandedOver, Version: versionOf(d.Topic, d.Body),
	}
}

// inHand returns for how many ms at the most a message is worked on: longer for one whose id
// is published again meanwhile.
func inHand(d subscribers.Delivery) int {
	if versionOf(d.Topic, d.Body) != "" {
		return 60
	}
	return 8
}

// settle makes a random call on a claimed message.
func (c *claiming) settle(ctx context.Context, d subscribers.Delivery) {
	rest(ctx, time.Duration(c.roll(inHand(d)))*time.Millisecond)
	switch n := c.roll(100); {
	case n < 5:
		c.nack(ctx, d, time.Duration(c.roll(300))*time.Millisecond)
	case n < 6: // the receipt of the ack is stale, and the message may be claimed again already
		c.nack(ctx, d, 0)
		c.ack(ctx, d)
	case n < 8:
		c.bury(ctx, d)
	case n < 11:
		c.release(ctx, d)
	case n < 13:
		c.snooze(ctx, d)
	case n < 14: // leaves it
	case n < 16: // takes too long
		rest(ctx, lease+20*time.Millisecond)
		c.ack(ctx, d)
	case n < 24:
		if c.extend(ctx, &d) {
			rest(ctx, time.Duration(c.roll(50))*time.Millisecond)
			c.ack(ctx, d)
		}
	default:
		c.ack(ctx, d)
	}
}

// begin records that a message is about to be settled.
func (c *claiming) begin(op history.Op, d subscribers.Delivery) *history.Operation {
	return c.Call(history.Record{Op: op, Topic: d.Topic, ID: d.ID, Receipt: int64(d.Receipt), Version: versionOf(d.Topic, d.Body)})
}

func (c *claiming) ack(ctx context.Context, d subscribers.Delivery) {
	if slices.Contains(claimedTopics, d.Topic) && c.roll(3) == 0 {
		c.ackWith(ctx, d)
		return
	}
	op := c.begin(history.Ack, d)
	err := d.Ack(ctx)
	op.End(phase(err), history.Record{Error: text(err)})
}

func (c *claiming) nack(ctx context.Context, d subscribers.Delivery, delay time.Duration) {
	op := c.begin(history.Nack, d)
	out, err := d.Nack(ctx, delay, "not this time")
	op.End(phase(err), settled(out, err))
}

func (c *claiming) bury(ctx context.Context, d subscribers.Delivery) {
	op := c.begin(history.Bury, d)
	out, err := d.Bury(ctx, "never")
	op.End(phase(err), settled(out, err))
	if c.roll(2) == 0 && !slices.Contains(sharedTopics, d.Topic) {
		rest(ctx, time.Duration(c.roll(100))*time.Millisecond)
		c.requeue(ctx, d)
	}
}

// requeue requeues a buried message.
func (c *claiming) requeue(ctx context.Context, d subscribers.Delivery) {
	op := c.Call(history.Record{Op: history.Requeue, Topic: d.Topic, ID: d.ID})
	n, err := c.inspector.Requeue(ctx, d.Topic, d.ID)
	phase := phase(err)
	if err == nil && n == 0 {
		phase = history.No
	}
	op.End(phase, history.Record{Error: text(err)})
}

// settled returns the record of a message that was given back or buried.
func settled(out subscribers.Outcome, err error) history.Record {
	r := history.Record{Error: text(err)}
	if err == nil {
		r.State, r.Due = out.State.String(), dueOf(out.Due)
	}
	switch {
	case out.Dropped:
		r.State = "dropped"
	case out.Cancelled:
		r.State = "cancelled"
	}
	return r
}

func (c *claiming) release(ctx context.Context, d subscribers.Delivery) {
	op := c.begin(history.Release, d)
	lost, err := c.claimer.ReleaseMany(ctx, d.Topic, []subscribers.Delivery{d})
	switch {
	case err == nil && len(lost) > 0:
		op.End(history.No, history.Record{Error: "lease lost"})
	default:
		op.End(phase(err), history.Record{Error: text(err)})
	}
}

func (c *claiming) extend(ctx context.Context, d *subscribers.Delivery) bool {
	op := c.Call(history.Record{
		Op: history.Extend, Topic: d.Topic, ID: d.ID, Was: int64(d.Receipt), Lease: lease.Milliseconds(), Version: versionOf(d.Topic, d.Body),
	})
	err := d.Extend(ctx, lease)
	now := history.Record{Was: int64(d.Receipt), Error: text(err)}
	if err == nil {
		now.Receipt = d.Until().UnixMicro()
	}
	op.End(phase(err), now)
	return err == nil
}
