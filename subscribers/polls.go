package subscribers

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
)

// failover is how long a poll waits on while Redis cannot be asked: longer than
// another master takes to replace a lost one.
const failover = 10 * time.Second

// polls are the callers that wait for messages, by topic.
type polls struct {
	*leases
	log       *slog.Logger
	inbox     string
	ended     context.Context // ends when the claimer's Run does
	fallbacks atomic.Int64

	clock sample // of the last claim
	stats handovers

	mu     sync.Mutex
	queues map[string]*topicQueue // by topic
	tasks  int                    // goroutines that serve queues, or confirm hand-overs
	idle   *sync.Cond             // there are no tasks
}

// A topicQueue holds the polls of a topic. It is guarded by polls.mu.
type topicQueue struct {
	topic  string
	polls  []*poll // in the order in which they came
	served bool    // a goroutine serves it
	rung   bool    // something may be ready
	beaten bool    // and a beat named the topic, though no ring came
	listed bool    // the inbox may be in the waiting list

	asking   bool     // a claim is under way
	handed   []handed // not dealt yet: they are younger than what that claim may bring
	received int64    // when the last hand-over was made, in us by Redis's clock
}

// A handed is a message that was handed over.
type handed struct {
	store.Handover
	Delivery
}

// A poll is one caller that waits.
type poll struct {
	max   int
	lease time.Duration
	asked bool        // something was claimed for it; guarded by polls.mu
	fault error       // why Redis could not be asked, the last time; guarded by polls.mu
	since time.Time   // of the first such fault; guarded by polls.mu
	done  chan polled // holds one
}

// polled is what a poll got.
type polled struct {
	deliveries []Delivery
	err        error
}

// wait waits for messages until end, and returns what it got; that may be messages
// though ctx has ended.
func (p *polls) wait(ctx context.Context, topic string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	one := &poll{max: o.Max, lease: o.Lease, done: make(chan polled, 1)}
	if err := p.enter(topic, one); err != nil {
		return nil, err
	}
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	case <-end:
	case <-ctx.Done():
	}
	return p.leave(topic, one)
}

// enter lets a poll wait.
func (p *polls) enter(topic string, one *poll) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Err() != nil {
		return ErrStopping
	}
	q := p.queue(topic)
	q.polls = append(q.polls, one)
	q.rung = true
	p.start(q)
	return nil
}

// leave ends the wait of a poll, and returns what it got at the last moment.
func (p *polls) leave(topic string, one *poll) ([]Delivery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	default:
	}
	q := p.queues[topic]
	q.polls = slices.DeleteFunc(q.polls, func(other *poll) bool { return other == one })
	p.start(q)
	return nil, one.fault
}

// stop ends all polls with an ErrStopping, and returns when the inbox has left all
// waiting lists, and what was handed over is released. The claimer's Run has ended: no
// other poll enters.
func (p *polls) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		for _, one := range q.polls {
			one.done <- polled{err: ErrStopping}
		}
		q.polls = nil
		p.start(q)
	}
	for p.tasks > 0 {
		p.idle.Wait()
	}
}

// queue returns the queue of a topic. The mutex is held.
func (p *polls) queue(topic string) *topicQueue {
	q := p.queues[topic]
	if q == nil {
		q = &topicQueue{topic: topic}
		p.queues[topic] = q
	}
	return q
}

// ringAll has every queue claim: the subscription is new.
func (p *polls) ringAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		q.rung = true
		p.start(q)
	}
}

// ring has the queue of a topic claim. The inbox is in the waiting list of the
// topic. If no caller waits, which happens when the last one has just left or when
// leaving failed, the inbox leaves the list (again), so that another one is rung.
func (p *polls) ring(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queue(topic)
	q.rung, q.listed = true, true
	p.start(q)
}

// ringAfter has a queue claim some time from now, if callers wait then. The mutex is held.
func (p *polls) ringAfter(q *topicQueue, d time.Duration) {
	time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		q.rung = true
		p.start(q)
	})
}

// beat has the queues of topics claim that a beat named: something is ready, and the
// waiting list is empty.
func (p *polls) beat(topics []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range topics {
		if q := p.queues[topic]; q != nil {
			q.beaten = q.beaten || q.listed && !q.served // it was thought to be in the list, and at rest
			q.rung = true
			p.start(q)
		}
	}
}

// start has a goroutine serve a queue if there is something to do, and deals what was
// handed over. The mutex is held.
func (p *polls) start(q *topicQueue) {
	if !q.served && q.busy() {
		q.served = true
		p.begin(func() { p.serve(q) })
	}
	p.dealHanded(q)
}

// begin begins a task. The mutex is held.
func (p *polls) begin(task func()) {
	p.tasks++
	go func() {
		task()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.tasks--; p.tasks == 0 {
			p.idle.Broadcast()
		}
	}()
}

// busy reports whether there is something to do: claim for callers, or leave the
// waiting list when there are none, and release what it handed over. The mutex is held.
func (q *topicQueue) busy() bool {
	return len(q.polls) > 0 && q.rung || len(q.polls) == 0 && (q.listed || len(q.handed) > 0)
}

// serve claims for a queue while it is rung, and leaves the waiting list when no
// caller waits any more, so that another subscriber is rung.
func (p *polls) serve(q *topicQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pause backoff.Pause
	for q.busy() {
		switch {
		case len(q.polls) == 0:
			var ds []Delivery
			for _, one := range q.handed {
				ds = append(ds, one.Delivery)
			}
			q.handed = nil
			p.stats.dropped.Add(int64(len(ds)))
			p.unlist(q, ds)
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

// ask claims for the callers of a queue. It reports whether Redis could be asked: if
// not, they wait on. The mutex is held, but while Redis is called.
func (p *polls) ask(q *topicQueue) (asked bool) {
	o := q.wanted()
	beaten, received := q.beaten, q.received
	q.rung, q.beaten, q.listed, q.asking = false, false, false, true
	p.mu.Unlock()
	got, err := p.claim(context.Background(), q.topic, o, p.inbox, received)
	p.mu.Lock()
	q.asking = false
	q.listed = q.listed || got.short || err != nil
	q.rung = q.rung || !got.short
	if err != nil {
		p.dealHanded(q)
		q.fail(o.Lease, err)
		return !store.NotExecuted(err)
	}
	p.clock.note(got.now)
	if got.onTheWay { // it rings when it arrives
		p.ringAfter(q, handoverLost)
	}
	if beaten && len(got.deliveries) > 0 {
		p.fallbacks.Add(1)
	}
	left := q.deal(got.deliveries, o.Lease)
	p.dealHanded(q)
	if len(left) > 0 {
		p.unlist(q, left)
	}
	if len(got.unreadable) > 0 {
		p.mu.Unlock()
		p.buryUnreadable(context.Background(), got.unreadable)
		p.mu.Lock()
	}
	return true
}

// unlist takes the inbox out of the waiting list and releases messages that no
// caller takes any more: other subscribers are rung for them, and callers that came
// meanwhile claim again. The mutex is held, but while Redis is called.
func (p *polls) unlist(q *topicQueue, ds []Delivery) {
	q.listed, q.rung = false, true
	p.mu.Unlock()
	defer p.mu.Lock()
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	_, err := p.releaseMany(ctx, q.topic, p.inbox, ds)
	if err != nil && len(ds) > 0 { // without messages the next ring has it unlisted again
		p.log.Warn("cannot release messages; their leases expire", "topic", q.topic, "messages", len(ds), "error", err)
	}
}

// wanted returns what to claim now: for the first poll, and for all those of the
// same lease. The mutex is held.
func (q *topicQueue) wanted() (o ClaimOptions) {
	o.Lease = q.polls[0].lease
	for _, one := range q.polls {
		if one.lease == o.Lease {
			o.Max += one.max
			one.asked = true
		}
	}
	o.Max = min(o.Max, store.MaxClaim)
	return o
}

// deal hands out what was claimed under a lease, and returns what no poll takes any
// more. The mutex is held.
func (q *topicQueue) deal(ds []Delivery, lease time.Duration) (left []Delivery) {
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

// fail ends the polls for which a claim failed. Others, which came meanwhile or want
// another lease, have a claim of their own. Where Redis could not be asked at all they
// wait on, and get the error only when their wait is over, or after longer than a
// failover takes. The mutex is held.
func (q *topicQueue) fail(lease time.Duration, err error) {
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
