package subscribers

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// mostPending is how many hand-overs wait for a claim under way, or to be released, at the
// most: more than claims are under way, since anyone who may PUBLISH could make them up.
const mostPending = 500

// waiters are the calls of Claim that wait, by topic.
type waiters struct {
	*leases
	inbox     reach.Inbox
	ended     context.Context // ends when the claimer's Run does
	waiting   atomic.Int64    // callers that stand in queues
	fallbacks atomic.Int64

	stats handovers

	mu      sync.Mutex
	queues  map[string]*topicQueue // by topic
	pending int                    // hand-overs that are neither dealt nor released
	tasks   int                    // goroutines that serve queues, or confirm hand-overs
	idle    *sync.Cond             // there are no tasks

	vacant  map[store.Shard][]*topicQueue // the inbox is to leave their waiting lists
	vacated *sync.Cond                    // it left some

	answered *sync.Cond // a claim was answered, and what it brought is dealt
}

// A topicQueue holds the waiters of a topic. It is guarded by waiters.mu.
type topicQueue struct {
	topic   string
	waiters []*shardWaiter // in the order in which they came
	served  bool           // a goroutine serves it, or the inbox is leaving the waiting list
	rung    bool           // something may be ready
	beaten  bool           // and a beat named the topic, though no ring came
	listed  bool           // the inbox may be in the waiting list
	leaves  bool           // it is leaving that
	scans   int            // calls under way that may put the inbox there

	asking bool       // a claim is under way
	handed []handed   // not dealt yet: they are younger than what that claim may bring
	back   []Delivery // handed over, to be released before the next claim: they are older than what that may bring
	box    mailbox    // of the hand-overs that are not among handed
	clock  sample     // of the last claim
}

// A handed is a message that was handed over.
type handed struct {
	store.Handover
	Delivery
}

// init makes waiters that are rung by an inbox until ended.
func (w *waiters) init(l *leases, inbox reach.Inbox, ended context.Context) {
	w.leases, w.inbox, w.ended = l, inbox, ended
	w.queues, w.vacant = make(map[string]*topicQueue), make(map[store.Shard][]*topicQueue)
	for _, cond := range []**sync.Cond{&w.idle, &w.vacated, &w.answered} {
		*cond = sync.NewCond(&w.mu)
	}
}

// queue returns the queue of a topic. The mutex is held.
func (w *waiters) queue(topic string) *topicQueue {
	q := w.queues[topic]
	if q == nil {
		q = &topicQueue{topic: topic}
		w.queues[topic] = q
	}
	return q
}

// ringAll has every queue of a shard claim: the subscription is new.
func (w *waiters) ringAll(shard store.Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		if w.store.Of(q.topic) != shard {
			continue
		}
		q.rung = true
		for _, one := range q.waiters {
			if one.ofSeveral() && one.asked == nil && one.free(q) && len(one.shares) == 0 {
				w.beginScan(one)
			}
		}
	}
	for _, q := range w.queues {
		w.start(q)
	}
}

// ring has the queue of a topic claim. The inbox is in the waiting list of the
// topic. If no caller waits, which happens when the last one has just left or when
// leaving failed, the inbox leaves the list (again), so that another one is rung.
func (w *waiters) ring(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queue(topic)
	q.rung, q.listed = true, true
	w.start(q)
}

// ringAfter has a queue claim some time from now, if callers wait then. The mutex is held.
func (w *waiters) ringAfter(q *topicQueue, d time.Duration) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		q.rung = true
		w.start(q)
	})
}

// beat has the queues of topics claim that a beat named: something is ready, and the
// waiting list is empty.
func (w *waiters) beat(topics []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		if q := w.queues[topic]; q != nil {
			q.beaten = q.beaten || q.listed && !q.served // it was thought to be in the list, and at rest
			q.rung = true
			w.start(q)
		}
	}
}

// start deals what was handed over. Then it has a goroutine serve a queue if there is
// something to do, or has the inbox leave the waiting list where no caller waits. The
// mutex is held.
func (w *waiters) start(q *topicQueue) {
	w.dealHanded(q)
	switch {
	case q.served:
	case q.busy():
		q.served = true
		w.begin(func() { w.serve(q) })
	case len(q.waiters) > 0 || q.scans > 0:
	case q.listed:
		q.served = true
		q.leave()
		shard := w.store.Of(q.topic)
		if w.vacant[shard] = append(w.vacant[shard], q); len(w.vacant[shard]) == 1 {
			w.begin(func() { w.vacate(shard) })
		}
	case w.queues[q.topic] == q:
		delete(w.queues, q.topic)
	}
}

// leave notes that the inbox is leaving the waiting list: what was on its way is taken
// back, and callers that come meanwhile claim. It returns the time of the last hand-over that
// was received. The mutex is held.
func (q *topicQueue) leave() (received int64) {
	q.leaves, q.listed, q.rung = true, false, true
	q.box.leave()
	return q.box.received
}

// begin begins a task. The mutex is held.
func (w *waiters) begin(task func()) {
	w.tasks++
	go func() {
		task()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.tasks--; w.tasks == 0 {
			w.idle.Broadcast()
		}
	}()
}

// busy reports whether there is something to do: release what was handed over, or claim for
// callers. The mutex is held.
func (q *topicQueue) busy() bool {
	return len(q.back) > 0 || len(q.waiters) == 0 && len(q.handed) > 0 || q.rung && q.firstFree() != nil
}

// firstFree returns the first waiter for which the queue may claim; nil if there is none.
// The mutex is held.
func (q *topicQueue) firstFree() *shardWaiter {
	for _, one := range q.waiters {
		if one.free(q) {
			return one
		}
	}
	return nil
}

// serve claims for a queue while it is rung, and releases what was handed over and no
// caller takes.
func (w *waiters) serve(q *topicQueue) {
	var pause backoff.Pause
	for call := w.nextCall(q); call != nil; call = w.nextCall(q) {
		if answered := call(); answered {
			pause.Reset()
		} else {
			pause.Wait(w.ended)
		}
	}
}

// nextCall returns the call to Redis that a queue is to make, which reports whether that
// answered. It returns nil if there is none: then the queue is served no more.
func (w *waiters) nextCall(q *topicQueue) (call func() (answered bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !q.busy():
		q.served = false
		w.start(q)
		w.vacated.Broadcast()
		return nil
	case len(q.back) > 0 || len(q.waiters) == 0:
		for len(q.waiters) == 0 && len(q.handed) > 0 {
			w.refuse(q)
		}
		back, received := q.back, q.leave()
		q.back = nil
		return func() bool {
			w.unlist(q, back, received, len(back))
			return true
		}
	}
	c := queueClaim{before: q.box, beaten: q.beaten}
	c.terms, c.most = q.wanted()
	q.rung, q.beaten, q.listed, q.asking = false, false, false, true
	return func() bool { return w.ask(q, c) }
}

// A queueClaim is a claim for the callers of a queue.
type queueClaim struct {
	terms  claimTerms
	most   int
	before mailbox // as it was then
	beaten bool    // a beat has named the topic
}

// ask claims for the callers of a queue. It reports whether Redis answered: if not, those
// that are not ended by the error wait on.
func (w *waiters) ask(q *topicQueue, c queueClaim) (answered bool) {
	got, err := w.claim(context.Background(), q.topic, ClaimOptions{Max: c.most, Lease: c.terms.lease, AckNow: c.terms.ackNow, Worker: c.terms.worker}, w.inbox, c.before.received)
	if err != nil {
		w.claimFailed(q, err)
		return false
	}
	if left, received := w.answer(q, c, got); len(left) > 0 {
		w.unlist(q, left, received, 0)
	}
	w.buryUnreadable(context.Background(), got.unreadable)
	return true
}

// claimFailed notes that the claim of a queue has failed.
func (w *waiters) claimFailed(q *topicQueue, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.asking, q.listed, q.rung = false, true, true
	w.dealHanded(q)
	w.fail(q, err)
	w.askedFor(q)
}

// answer hands out what the claim of a queue brought. It returns what no caller takes any
// more and is to be released, since when the inbox is leaving the waiting list, and the time
// of the last hand-over that it received.
func (w *waiters) answer(q *topicQueue, c queueClaim, got claimed) (left []Delivery, received int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.asking, q.listed, q.rung = false, q.listed || got.short, q.rung || !got.short
	q.clock.note(got.now)
	if got.onTheWay { // it rings when it arrives
		w.ringAfter(q, handoverLost())
	} else {
		q.box.found(got.now, c.before)
	}
	if c.beaten && len(got.deliveries) > 0 {
		w.fallbacks.Add(1)
	}
	left = w.deal(q, got.deliveries, c.terms)
	w.askedFor(q)
	w.dealHanded(q)
	switch {
	case len(left) == 0:
	case c.terms.ackNow:
		w.log.Error("messages were acknowledged as they were claimed, and no caller takes them", "topic", q.topic, "messages", len(left))
	default:
		return left, q.leave()
	}
	return nil, 0
}

// unlist takes the inbox out of the waiting list and releases messages that no
// caller takes any more, of which some were handed over: other subscribers are rung for
// them, and callers that came meanwhile claim again.
func (w *waiters) unlist(q *topicQueue, ds []Delivery, received int64, handed int) {
	ctx, cancel := context.WithTimeout(context.Background(), reach.SettleFor)
	defer cancel()
	_, err := w.releaseMany(ctx, q.topic, w.inbox, received, ds)
	if err != nil {
		w.log.Warn("cannot release messages; their leases expire", "topic", q.topic, "messages", len(ds), "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q.leaves = false
	w.pending -= handed
	w.vacated.Broadcast()
}

// wanted returns what to claim now: for the first waiter that is free, and for all those
// of the same terms. The mutex is held.
func (q *topicQueue) wanted() (terms claimTerms, most int) {
	terms = q.firstFree().terms
	for _, one := range q.waiters {
		if one.terms == terms && one.free(q) {
			most += one.wants(q)
			one.asked = q
		}
	}
	return terms, min(most, record.MaxClaim)
}

// deal hands out what was claimed on terms, and returns what no waiter takes any more.
// The mutex is held.
func (w *waiters) deal(q *topicQueue, ds []Delivery, terms claimTerms) (left []Delivery) {
	var served []*waiter
	for _, one := range q.waiters {
		one.fault = nil
		if one.terms != terms || len(ds) == 0 || !one.free(q) {
			continue
		}
		n := min(one.wants(q), len(ds))
		one.got, one.asked = append(one.got, ds[:n]...), q
		ds = ds[n:]
		if len(one.shares) == 0 || one.shares[0].queue != q {
			served = append(served, one.waiter)
		}
	}
	w.end(nil, served...)
	return ds
}

// fail ends the waiters for which a claim failed, or has them read what another shard has.
// Others, which came meanwhile or want other terms, have a claim of their own. The mutex is
// held.
func (w *waiters) fail(q *topicQueue, err error) {
	var gone []*waiter
	for _, one := range q.waiters {
		switch {
		case one.asked != q:
		case one.fails(err) || len(one.got) > 0 || one.terms.ackNow && !reach.NotExecuted(err): // it may have acknowledged messages
			gone = append(gone, one.waiter)
		case len(one.in) > 1:
			w.beginScan(one) // which delays no claim in another shard
		}
	}
	w.end(err, gone...)
}

// vacate takes the inbox out of the waiting lists of topics of a shard for which no caller waits
// any more, so that other subscribers are rung. Where that fails the next ring has it
// done again.
func (w *waiters) vacate(shard store.Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.vacant[shard]
	delete(w.vacant, shard)
	ctx, cancel := context.WithTimeout(context.Background(), reach.SettleFor)
	defer cancel()
	for some := range slices.Chunk(all, record.MaxTopics) {
		topics, received := make([]string, len(some)), make([]int64, len(some))
		for i, q := range some {
			topics[i], received[i] = q.topic, q.box.received
		}
		w.mu.Unlock()
		_ = shard.Leave(ctx, w.inbox, topics, received)
		w.mu.Lock()
		for _, q := range some {
			q.served, q.leaves = false, false
			w.start(q)
		}
		w.vacated.Broadcast()
	}
}
