package subscribers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// MaxWait is the longest wait of a [Poller.Claim].
const MaxWait = 5 * time.Minute

// PollerOptions are the options of a Poller. The zero value is the default.
type PollerOptions struct {
	MaxAttempts int          // limit of attempts of messages that have none of their own; zero: DefaultMaxAttempts
	Logger      *slog.Logger // nil: nothing is logged
}

// ClaimOptions say what a [Poller.Claim] takes.
type ClaimOptions struct {
	Max    int           // messages at the most
	Lease  time.Duration // of the messages
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
	aged  agedEar

	waiting   atomic.Int64
	fallbacks atomic.Int64

	mu     sync.Mutex
	heard  bool                     // the connection stands
	queues map[string]*queue        // by topic
	pings  map[string]chan struct{} // that were sent and not heard yet, by payload
	tasks  sync.WaitGroup           // queues that are served
}

// A queue is who waits for a topic. It is guarded by Poller.mu.
type queue struct {
	topic  string
	polls  []*poll // in the order in which they came
	served bool    // a goroutine sees to it
	rung   bool    // something may be ready
	beaten bool    // and it was a beat that said so
	stands bool    // the inbox may stand in the waiting list
}

// A poll is one caller that waits.
type poll struct {
	max   int
	lease time.Duration
	done  chan polled // holds one
}

// polled is what a poll got.
type polled struct {
	deliveries []Delivery
	err        error
}

// NewPoller returns a poller on a store. It starts nothing.
func NewPoller(store *notify.Store, o PollerOptions) *Poller {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Poller{
		Claimer: NewClaimer(store, o.MaxAttempts), o: o, inbox: store.Keys().Inbox(notify.NewID()),
		queues: make(map[string]*queue), pings: make(map[string]chan struct{}),
	}
	p.aged.poller = p
	return p
}

// Run listens for rings until ctx ends; then those who wait get an ErrStopping,
// and it returns when the inbox has left all waiting lists.
func (p *Poller) Run(ctx context.Context) {
	ear := ear{log: p.o.Logger}
	p.store.Hear(ctx, func(e notify.Event) {
		ear.note(e)
		p.hear(e)
	}, p.inbox)
	p.mu.Lock()
	p.heard = false
	for _, q := range p.queues {
		p.answerAll(q, polled{err: ErrStopping})
		p.serve(q)
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

// Waiting returns how many callers wait now.
func (p *Poller) Waiting() int64 { return p.waiting.Load() }

// Fallbacks returns how often the carrier's beat told of messages for somebody
// who waited, because their ring was lost. It should stay zero.
func (p *Poller) Fallbacks() int64 { return p.fallbacks.Load() }

// Claim leases up to o.Max ready messages of a topic that are due for o.MinAge
// at least, oldest due first. If there is none it waits for one; none within
// o.Wait is no error. A message whose record is unreadable is buried with the
// reason. Errors: notify.ErrInvalid; that of ctx, with which no message is
// leased; ErrStopping when Run ends; or that of the connection, after which
// messages may be leased until the lease expires.
func (p *Poller) Claim(ctx context.Context, topic string, o ClaimOptions) ([]Delivery, error) {
	if o.Wait < 0 || o.Wait > MaxWait {
		return nil, fmt.Errorf("%w wait %v: use 0s to %v", notify.ErrInvalid, o.Wait, MaxWait)
	}
	if err := checkClaim(topic, o.Max, o.Lease, o.MinAge); err != nil {
		return nil, err
	}
	switch {
	case o.Wait == 0:
		ds, _, err := p.take(ctx, topic, o.Max, o.Lease, o.MinAge)
		return ds, err
	case o.MinAge > 0:
		return p.waitAged(ctx, topic, o)
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	one := &poll{max: o.Max, lease: o.Lease, done: make(chan polled, 1)}
	p.enter(topic, one)
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	case <-timer.C:
		return p.leave(topic, one)
	case <-ctx.Done():
	}
	ds, err := p.leave(topic, one)
	if err == nil && len(ds) > 0 { // they came at the last moment, and nobody takes them
		_, err = p.Release(context.WithoutCancel(ctx), topic, ds)
	}
	return nil, errors.Join(ctx.Err(), err)
}

// enter lets a poll wait.
func (p *Poller) enter(topic string, one *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[topic]
	if q == nil {
		q = &queue{topic: topic}
		p.queues[topic] = q
	}
	q.polls = append(q.polls, one)
	q.rung = true
	p.serve(q)
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
	for i, other := range q.polls {
		if other == one {
			q.polls = append(q.polls[:i:i], q.polls[i+1:]...)
			break
		}
	}
	p.serve(q)
	return nil, nil
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
	for q.busy() {
		if len(q.polls) == 0 {
			q.stands = false
			p.mu.Unlock()
			_, err := p.release(context.Background(), q.topic, p.inbox, nil)
			p.mu.Lock()
			if err != nil { // the next ring finds nobody here, and is passed on with the beat
				p.o.Logger.Warn("cannot leave the waiting list", "topic", q.topic, "error", err)
			}
			continue
		}
		max, lease := q.wanted()
		beaten := q.beaten
		q.rung, q.beaten, q.stands = false, false, true
		p.mu.Unlock()
		ds, short, err := p.takeAnd(q.topic, max, lease)
		p.mu.Lock()
		if beaten && len(ds) > 0 {
			p.fallbacks.Add(1)
		}
		q.rung = q.rung || !short && err == nil
		p.deal(q, ds, lease, err)
	}
	q.served = false
	if len(q.polls) == 0 {
		delete(p.queues, q.topic)
	}
}

// wanted returns how many messages to claim under which lease: for the first
// poll, and for those of the same lease. The mutex is held.
func (q *queue) wanted() (max int, lease time.Duration) {
	lease = q.polls[0].lease
	for _, one := range q.polls {
		if one.lease == lease {
			max += one.max
		}
	}
	return min(max, MaxClaim), lease
}

// takeAnd claims, and has the inbox wait if there are fewer than max.
func (p *Poller) takeAnd(topic string, max int, lease time.Duration) (ds []Delivery, short bool, err error) {
	ctx := context.Background()
	got, err := p.claim(ctx, topic, max, lease, 0, p.inbox)
	if err != nil {
		return nil, false, err
	}
	p.buryUnreadable(ctx, got.unreadable)
	return got.deliveries, got.short, nil
}

// deal hands out what was claimed under a lease, or the error. What nobody
// takes any more is given back. The mutex is held, but while that is done.
func (p *Poller) deal(q *queue, ds []Delivery, lease time.Duration, err error) {
	if err != nil {
		p.answerAll(q, polled{err: err})
		return
	}
	left := q.polls[:0]
	for _, one := range q.polls {
		if one.lease != lease || len(ds) == 0 {
			left = append(left, one)
			continue
		}
		n := min(one.max, len(ds))
		one.done <- polled{deliveries: ds[:n:n]}
		ds = ds[n:]
	}
	clear(q.polls[len(left):])
	q.polls = left
	if len(ds) == 0 {
		return
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	if _, err := p.Release(context.Background(), q.topic, ds); err != nil {
		p.o.Logger.Warn("cannot release messages, their leases run out by themselves", "topic", q.topic, "messages", len(ds), "error", err)
	}
}

// answerAll ends the wait of all polls of a queue. The mutex is held.
func (p *Poller) answerAll(q *queue, answer polled) {
	for _, one := range q.polls {
		one.done <- answer
	}
	q.polls = nil
}

// hear takes note of an event of the connection. It does not block.
func (p *Poller) hear(e notify.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case notify.Subscribed:
		p.heard = true
		for _, q := range p.queues {
			p.ring(q, false)
		}
	case notify.Heard:
		if pong := p.pings[e.Payload]; pong != nil {
			delete(p.pings, e.Payload)
			close(pong)
			return
		}
		p.ring(p.queues[e.Payload], false)
	case notify.Beat:
		for _, topic := range e.Topics() {
			p.ring(p.queues[topic], true)
		}
	case notify.Silent, notify.Broken:
		p.heard = false
	}
}

// ring has a queue looked after. The mutex is held.
func (p *Poller) ring(q *queue, beaten bool) {
	if q == nil {
		return
	}
	q.rung, q.beaten = true, q.beaten || beaten
	p.serve(q)
}

// ErrDeaf is the error of a Poller whose connection to Redis does not stand.
var ErrDeaf = errors.New("the connection that listens to redis does not stand")

// Ping sends itself a message over Redis's pub/sub, the way that a ring takes,
// and waits for it. Errors: ErrDeaf, or that of the connection or ctx.
func (p *Poller) Ping(ctx context.Context) error {
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
	ears, err := p.store.Client().Publish(ctx, p.inbox, payload).Result()
	switch {
	case err != nil:
		return fmt.Errorf("ping: redis at %s: %w", p.store.Where(), err)
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

// agedEar hears for which topics something becomes ready, for those who wait
// for messages of an age. They stand in no waiting list: who is rung there
// takes the message at once. It listens while somebody waits.
type agedEar struct {
	poller *Poller

	life sync.Mutex // held while it starts or stops
	stop func()     // ends it; nil while nobody waits

	mu    sync.Mutex
	bells map[chan struct{}]string // of those who wait, with the topic
}

// join returns a bell that rings when something of a topic may have become ready.
func (a *agedEar) join(topic string) chan struct{} {
	bell := make(chan struct{}, 1)
	a.life.Lock()
	defer a.life.Unlock()
	a.mu.Lock()
	if a.bells == nil {
		a.bells = make(map[chan struct{}]string)
	}
	a.bells[bell] = topic
	a.mu.Unlock()
	if a.stop == nil {
		a.start()
	}
	return bell
}

func (a *agedEar) leave(bell chan struct{}) {
	a.life.Lock()
	defer a.life.Unlock()
	a.mu.Lock()
	delete(a.bells, bell)
	last := len(a.bells) == 0
	a.mu.Unlock()
	if last {
		a.stop()
		a.stop = nil
	}
}

func (a *agedEar) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.poller.store.Hear(ctx, a.hear, a.poller.store.Keys().Wake("*"))
	}()
	a.stop = func() {
		cancel()
		<-done
	}
}

// hear rings those whose topic may have something; a connection that stands
// anew may have missed it.
func (a *agedEar) hear(e notify.Event) {
	if e.Kind != notify.Subscribed && e.Kind != notify.Heard {
		return
	}
	heard := strings.TrimPrefix(e.Channel, a.poller.store.Keys().Wake(""))
	a.mu.Lock()
	defer a.mu.Unlock()
	for bell, topic := range a.bells {
		if e.Kind == notify.Subscribed || topic == heard {
			signal(bell)
		}
	}
}

// waitAged is Claim for messages of an age. It claims again exactly when the
// oldest that is ready has that age, and where none is, when one becomes ready.
func (p *Poller) waitAged(ctx context.Context, topic string, o ClaimOptions) ([]Delivery, error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	bell := p.aged.join(topic)
	defer p.aged.leave(bell)
	end := time.NewTimer(o.Wait)
	defer end.Stop()
	for {
		ds, next, err := p.take(context.WithoutCancel(ctx), topic, o.Max, o.Lease, o.MinAge)
		if err != nil || len(ds) > 0 {
			return ds, err
		}
		ripe, ring := make(<-chan time.Time), bell
		if next >= 0 {
			ripe, ring = time.After(next), nil // what becomes ready meanwhile is younger
		}
		select {
		case <-ring:
		case <-ripe:
		case <-end.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
