package subscribers

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// failover is how long a waiter stays while Redis cannot be asked: longer than
// another master takes to replace a lost one.
const failover = 10 * time.Second

// A waiter is a call of Claim that waits, in each shard of its topics. Only one claim at a
// time is made for it: see free.
type waiter struct {
	in     []*shardWaiter
	max    int
	oldest bool // of all topics first
	terms  claimTerms
	done   chan result // holds one

	// Guarded by waiters.mu:
	over    bool           // it waits no more
	unread  []*shardWaiter // those of which nothing was read yet
	reading *shardWaiter   // the one that is read before any claim, for a moment; nil: there is none
	asked   *topicQueue    // whose claim for it is under way
	shares  []share        // of the topics from which it takes next: from the first one alone
	got     []Delivery     // from such topics
}

// all returns the queues of its topics.
func (one *waiter) all() iter.Seq[*topicQueue] {
	return func(yield func(*topicQueue) bool) {
		for _, in := range one.in {
			for _, q := range in.queues {
				if !yield(q) {
					return
				}
			}
		}
	}
}

func (one *waiter) ofSeveral() bool { return len(one.in) > 1 || len(one.in[0].queues) > 1 }

// isAcking reports whether a claim under way may acknowledge messages for a waiter. The
// mutex is held.
func (one *waiter) isAcking() bool { return one.terms.ackNow && !one.over && one.asked != nil }

// A shardWaiter is a waiter in one shard. It stands in the queue of each topic.
type shardWaiter struct {
	*waiter
	queues []*topicQueue // of its topics, in the order given

	// Guarded by waiters.mu:
	scanning bool      // what its topics have is read now
	fault    error     // why the shard could not be asked, the last time
	since    time.Time // of the first such fault
}

// claimTerms are what the callers have in common for whom one call claims.
type claimTerms struct {
	lease  time.Duration
	ackNow bool
	worker string
}

// A share is how many messages a waiter of several topics takes from one of them next.
type share struct {
	queue *topicQueue
	max   int
}

// result is what a waiter got.
type result struct {
	deliveries []Delivery
	err        error
}

// wait waits for messages until end, and returns what it got; that may be messages
// though ctx has ended.
func (w *waiters) wait(ctx context.Context, topics []string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	one := &waiter{max: o.Max, oldest: o.Oldest, terms: claimTerms{o.Lease, o.AckNow, o.Worker}, done: make(chan result, 1)}
	if err := w.enter(one, w.byShard(topics)); err != nil {
		return nil, err
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	case <-end:
	case <-ctx.Done():
	}
	return w.leave(ctx, one)
}

// enter has a waiter wait for topics, which come by shard.
func (w *waiters) enter(one *waiter, parts [][]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Err() != nil {
		return ErrStopping
	}
	for _, topics := range parts {
		in := &shardWaiter{waiter: one}
		one.in = append(one.in, in)
		for _, topic := range topics {
			q := w.queue(topic)
			q.waiters, in.queues = append(q.waiters, in), append(in.queues, q)
		}
	}
	w.vacated.Broadcast() // for those that left, somebody waits
	if !one.ofSeveral() {
		q := one.in[0].queues[0]
		q.rung = true
		w.start(q)
		return nil
	}
	one.unread = one.in
	w.readOn(one)
	return nil
}

// leave ends the wait of a waiter, and returns what it got at the last moment: what a
// claim that is under way acknowledges could not be given back.
func (w *waiters) leave(ctx context.Context, one *waiter) ([]Delivery, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one.isAcking() {
		w.answered.Wait()
	}
	if !one.over {
		w.end(w.missing(one), one)
	}
	got := <-one.done
	if len(got.deliveries) == 0 && ctx.Err() == nil {
		w.awaitLeft(one)
	}
	return got.deliveries, got.err
}

// awaitLeft waits until nothing is on its way to the topics of a waiter that no other waits
// for: the caller may ask elsewhere, where what is younger is ready. A hand-over that is
// lost ends it. The mutex is held, but while it waits.
func (w *waiters) awaitLeft(one *waiter) {
	late := false
	timer := time.AfterFunc(handoverLost(), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.vacated.Broadcast()
	})
	defer timer.Stop()
	comes := func(q *topicQueue) bool { return len(q.waiters) == 0 && (q.served || q.listed) }
	for !late && slices.ContainsFunc(one.in, func(in *shardWaiter) bool { return slices.ContainsFunc(in.queues, comes) }) {
		w.vacated.Wait()
	}
}

// end answers waiters with what they got, or else with an error. They leave their queues.
// The mutex is held.
func (w *waiters) end(err error, gone ...*waiter) {
	for _, one := range gone {
		one.over = true
	}
	var last *topicQueue
	for _, one := range gone {
		for q := range one.all() {
			if q == last { // most waiters wait for one topic
				continue
			}
			q.waiters = slices.DeleteFunc(q.waiters, func(other *shardWaiter) bool { return other.over })
			w.start(q)
			last = q
		}
	}
	for _, one := range gone { // last, since Go runs first what was woken last
		if len(one.got) > 0 {
			one.done <- result{deliveries: one.got}
		} else {
			one.done <- result{err: err}
		}
	}
}

// stop ends all waiters with an ErrStopping, and returns when the inbox has left all
// waiting lists, and what was handed over is released. The claimer's Run has ended: no
// other waiter enters.
func (w *waiters) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		for slices.ContainsFunc(q.waiters, (*shardWaiter).isAcking) {
			w.answered.Wait()
		}
		for _, one := range slices.Clone(q.waiters) {
			w.end(ErrStopping, one.waiter)
		}
		w.start(q)
	}
	for w.tasks > 0 {
		w.idle.Wait()
	}
}

// free reports whether a queue may claim for a waiter, or give it a message. The mutex is held.
func (one *shardWaiter) free(q *topicQueue) bool {
	if one.over || one.asked != nil {
		return !one.over && one.asked == q
	}
	return one.reading == nil && !one.scanning && (len(one.shares) == 0 || one.shares[0].queue == q)
}

// wants returns how much a queue is to claim for a waiter that is free. The mutex is held.
func (one *waiter) wants(q *topicQueue) int {
	left := one.max - len(one.got)
	if len(one.shares) > 0 && one.shares[0].queue == q {
		return min(one.shares[0].max, left)
	}
	return left
}

// takeFrom has a waiter take from topics next. The mutex is held.
func (one *waiter) takeFrom(shares []share) {
	if one.shares = shares; len(shares) > 0 {
		shares[0].queue.rung = true // it may have claimed for others meanwhile
	}
}

// has reports whether a share is one of the shard.
func (one *shardWaiter) has(s share) bool { return slices.Contains(one.queues, s.queue) }

// fails notes that a shard could not be asked for a waiter, and reports whether that ends
// it. Where Redis did not carry out the call, or other shards are there, the waiter stays,
// and gets the error only when its wait is over. The mutex is held.
func (one *shardWaiter) fails(err error) bool {
	if one.fault == nil {
		one.since = time.Now()
	}
	one.fault = err
	return !isAway(err) || !slices.ContainsFunc(one.in, (*shardWaiter).mayAnswer)
}

// mayAnswer reports whether a shard answers, as far as is known, or may do so within the
// time of a failover.
func (one *shardWaiter) mayAnswer() bool {
	return one.fault == nil || reach.NotExecuted(one.fault) && time.Since(one.since) < failover
}

// missing returns why a waiter whose wait is over could not be served, as far as is known.
// The mutex is held.
func (w *waiters) missing(one *waiter) error {
	missing := &store.MissingError{}
	for _, in := range one.in {
		if in.fault != nil {
			missing.Add(w.store.Of(in.queues[0].topic), in.fault)
		}
	}
	return missing.Among(len(one.in))
}
