package subscribers

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// failover is how long a poll waits on while Redis cannot be asked: longer than
// another master takes to replace a lost one.
const failover = 10 * time.Second

// mostPending is how many hand-overs wait for a claim under way, or to be released, at the
// most: more than claims are under way, since anyone who may PUBLISH could make them up.
const mostPending = 500

// polls are the callers that wait for messages, by topic.
type polls struct {
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

// A topicQueue holds the polls of a topic. It is guarded by polls.mu.
type topicQueue struct {
	topic  string
	polls  []*shardPoll // in the order in which they came
	served bool         // a goroutine serves it, or the inbox is leaving the waiting list
	rung   bool         // something may be ready
	beaten bool         // and a beat named the topic, though no ring came
	listed bool         // the inbox may be in the waiting list
	leaves bool         // it is leaving that
	scans  int          // calls under way that may put the inbox there

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

// A poll is one caller that waits, in each shard of its topics. Only one claim at a time
// is made for it: see free.
type poll struct {
	in     []*shardPoll
	max    int
	oldest bool // of all topics first
	terms  claimTerms
	done   chan polled // holds one

	// Guarded by polls.mu:
	over    bool         // it waits no more
	unread  []*shardPoll // those of which nothing was read yet
	reading *shardPoll   // the one that is read before any claim; nil: there is none
	asked   *topicQueue  // whose claim for it is under way
	shares  []share      // of the topics from which it takes next: from the first one alone
	got     []Delivery   // from such topics
}

// all returns the queues of its topics.
func (one *poll) all() iter.Seq[*topicQueue] {
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

// A shardPoll is what a poll waits for in one shard. It stands in the queue of each topic.
type shardPoll struct {
	*poll
	queues []*topicQueue // of its topics, in the order given

	// Guarded by polls.mu:
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

// polled is what a poll got.
type polled struct {
	deliveries []Delivery
	err        error
}

// init makes polls that wait with an inbox until ended.
func (p *polls) init(l *leases, inbox reach.Inbox, ended context.Context) {
	p.leases, p.inbox, p.ended = l, inbox, ended
	p.queues, p.vacant = make(map[string]*topicQueue), make(map[store.Shard][]*topicQueue)
	for _, cond := range []**sync.Cond{&p.idle, &p.vacated, &p.answered} {
		*cond = sync.NewCond(&p.mu)
	}
}

// wait waits for messages until end, and returns what it got; that may be messages
// though ctx has ended.
func (p *polls) wait(ctx context.Context, topics []string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	one := &poll{max: o.Max, oldest: o.Oldest, terms: claimTerms{o.Lease, o.AckNow, o.Worker}, done: make(chan polled, 1)}
	if err := p.enter(one, p.byShard(topics)); err != nil {
		return nil, err
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	select {
	case got := <-one.done:
		return got.deliveries, got.err
	case <-end:
	case <-ctx.Done():
	}
	return p.leave(ctx, one)
}

// enter lets a poll wait for topics, which come by shard.
func (p *polls) enter(one *poll, parts [][]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Err() != nil {
		return ErrStopping
	}
	for _, topics := range parts {
		in := &shardPoll{poll: one}
		one.in = append(one.in, in)
		for _, topic := range topics {
			q := p.queue(topic)
			q.polls, in.queues = append(q.polls, in), append(in.queues, q)
		}
	}
	p.vacated.Broadcast() // for those that left, somebody waits
	if !one.ofSeveral() {
		q := one.in[0].queues[0]
		q.rung = true
		p.start(q)
		return nil
	}
	one.unread = one.in
	p.readOn(one)
	return nil
}

// leave ends the wait of a poll, and returns what it got at the last moment: what a
// claim that is under way acknowledges could not be given back.
func (p *polls) leave(ctx context.Context, one *poll) ([]Delivery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one.isAcking() {
		p.answered.Wait()
	}
	if !one.over {
		p.end(p.missing(one), one)
	}
	got := <-one.done
	if len(got.deliveries) == 0 && ctx.Err() == nil {
		p.awaitLeft(one)
	}
	return got.deliveries, got.err
}

// awaitLeft waits until nothing is on its way to the topics of a poll that no other waits
// for: the caller may ask elsewhere, where what is younger is ready. A hand-over that is
// lost ends it. The mutex is held, but while it waits.
func (p *polls) awaitLeft(one *poll) {
	late := false
	timer := time.AfterFunc(handoverLost(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.vacated.Broadcast()
	})
	defer timer.Stop()
	comes := func(q *topicQueue) bool { return len(q.polls) == 0 && (q.served || q.listed) }
	for !late && slices.ContainsFunc(one.in, func(in *shardPoll) bool { return slices.ContainsFunc(in.queues, comes) }) {
		p.vacated.Wait()
	}
}

// end answers polls with what they got, or else with an error. They leave their queues.
// The mutex is held.
func (p *polls) end(err error, gone ...*poll) {
	for _, one := range gone {
		one.over = true
	}
	var last *topicQueue
	for _, one := range gone {
		for q := range one.all() {
			if q == last { // most polls wait for one topic
				continue
			}
			q.polls = slices.DeleteFunc(q.polls, func(other *shardPoll) bool { return other.over })
			p.start(q)
			last = q
		}
	}
	for _, one := range gone { // last, since Go runs first what was woken last
		if len(one.got) > 0 {
			one.done <- polled{deliveries: one.got}
		} else {
			one.done <- polled{err: err}
		}
	}
}

// stop ends all polls with an ErrStopping, and returns when the inbox has left all
// waiting lists, and what was handed over is released. The claimer's Run has ended: no
// other poll enters.
func (p *polls) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		for slices.ContainsFunc(q.polls, (*shardPoll).isAcking) {
			p.answered.Wait()
		}
		for _, one := range slices.Clone(q.polls) {
			p.end(ErrStopping, one.poll)
		}
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

// ringAll has every queue of a shard claim: the subscription is new.
func (p *polls) ringAll(shard store.Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		if p.store.Of(q.topic) != shard {
			continue
		}
		q.rung = true
		for _, one := range q.polls {
			if one.ofSeveral() && one.asked == nil && one.free(q) && len(one.shares) == 0 {
				p.beginScan(one)
			}
		}
	}
	for _, q := range p.queues {
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

// start deals what was handed over. Then it has a goroutine serve a queue if there is
// something to do, or has the inbox leave the waiting list where no caller waits. The
// mutex is held.
func (p *polls) start(q *topicQueue) {
	p.dealHanded(q)
	switch {
	case q.served:
	case q.busy():
		q.served = true
		p.begin(func() { p.serve(q) })
	case len(q.polls) > 0 || q.scans > 0:
	case q.listed:
		q.served = true
		q.leave()
		shard := p.store.Of(q.topic)
		if p.vacant[shard] = append(p.vacant[shard], q); len(p.vacant[shard]) == 1 {
			p.begin(func() { p.vacate(shard) })
		}
	case p.queues[q.topic] == q:
		delete(p.queues, q.topic)
	}
}

// leave notes that the inbox is leaving the waiting list: what was on its way is taken
// back, and callers that come meanwhile claim. The mutex is held.
func (q *topicQueue) leave() {
	q.leaves, q.listed, q.rung = true, false, true
	q.box.leave()
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

// busy reports whether there is something to do: release what was handed over, or claim for
// callers. The mutex is held.
func (q *topicQueue) busy() bool {
	return len(q.back) > 0 || len(q.polls) == 0 && len(q.handed) > 0 || q.rung && q.firstFree() != nil
}

// isAcking reports whether a claim under way may acknowledge messages for a poll. The
// mutex is held.
func (one *poll) isAcking() bool { return one.terms.ackNow && !one.over && one.asked != nil }

// firstFree returns the first poll for which the queue may claim; nil if there is none.
// The mutex is held.
func (q *topicQueue) firstFree() *shardPoll {
	for _, one := range q.polls {
		if one.free(q) {
			return one
		}
	}
	return nil
}

// serve claims for a queue while it is rung, and releases what was handed over and no
// caller takes.
func (p *polls) serve(q *topicQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pause backoff.Pause
	for q.busy() {
		switch {
		case len(q.back) > 0 || len(q.polls) == 0:
			for len(q.polls) == 0 && len(q.handed) > 0 {
				p.refuse(q)
			}
			ds := q.back
			q.back = nil
			p.unlist(q, ds)
			p.pending -= len(ds)
		case p.ask(q):
			pause.Reset()
		default:
			p.mu.Unlock()
			pause.Wait(p.ended)
			p.mu.Lock()
		}
	}
	q.served = false
	p.start(q)
	p.vacated.Broadcast()
}

// ask claims for the callers of a queue. It reports whether Redis could be asked: if
// not, they wait on. The mutex is held, but while Redis is called.
func (p *polls) ask(q *topicQueue) (asked bool) {
	terms, most := q.wanted()
	beaten, before := q.beaten, q.box
	q.rung, q.beaten, q.listed, q.asking = false, false, false, true
	p.mu.Unlock()
	got, err := p.claim(context.Background(), q.topic, ClaimOptions{Max: most, Lease: terms.lease, AckNow: terms.ackNow, Worker: terms.worker}, p.inbox, before.received)
	p.mu.Lock()
	q.asking = false
	q.listed = q.listed || got.short || err != nil
	q.rung = q.rung || !got.short
	if err != nil {
		p.dealHanded(q)
		p.fail(q, err)
		p.askedFor(q)
		return !reach.NotExecuted(err)
	}
	q.clock.note(got.now)
	if got.onTheWay { // it rings when it arrives
		p.ringAfter(q, handoverLost())
	} else {
		q.box.found(got.now, before)
	}
	if beaten && len(got.deliveries) > 0 {
		p.fallbacks.Add(1)
	}
	left := p.deal(q, got.deliveries, terms)
	p.askedFor(q)
	p.dealHanded(q)
	switch {
	case len(left) == 0:
	case terms.ackNow:
		p.log.Error("messages were acknowledged as they were claimed, and no caller takes them", "topic", q.topic, "messages", len(left))
	default:
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
	q.leave()
	received := q.box.received
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		q.leaves = false
		p.vacated.Broadcast()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), reach.SettleFor)
	defer cancel()
	_, err := p.releaseMany(ctx, q.topic, p.inbox, received, ds)
	if err != nil {
		p.log.Warn("cannot release messages; their leases expire", "topic", q.topic, "messages", len(ds), "error", err)
	}
}

// wanted returns what to claim now: for the first poll that is free, and for all those
// of the same terms. The mutex is held.
func (q *topicQueue) wanted() (terms claimTerms, most int) {
	terms = q.firstFree().terms
	for _, one := range q.polls {
		if one.terms == terms && one.free(q) {
			most += one.wants(q)
			one.asked = q
		}
	}
	return terms, min(most, record.MaxClaim)
}

// deal hands out what was claimed on terms, and returns what no poll takes any more.
// The mutex is held.
func (p *polls) deal(q *topicQueue, ds []Delivery, terms claimTerms) (left []Delivery) {
	var served []*poll
	for _, one := range q.polls {
		one.fault = nil
		if one.terms != terms || len(ds) == 0 || !one.free(q) {
			continue
		}
		n := min(one.wants(q), len(ds))
		one.got, one.asked = append(one.got, ds[:n]...), q
		ds = ds[n:]
		if len(one.shares) == 0 || one.shares[0].queue != q {
			served = append(served, one.poll)
		}
	}
	p.end(nil, served...)
	return ds
}

// fail ends the polls for which a claim failed, or has them read what another shard has.
// Others, which came meanwhile or want other terms, have a claim of their own. The mutex is
// held.
func (p *polls) fail(q *topicQueue, err error) {
	var gone []*poll
	for _, one := range q.polls {
		switch {
		case one.asked != q:
		case one.fails(err) || len(one.got) > 0 || one.terms.ackNow && !reach.NotExecuted(err): // it may have acknowledged messages
			gone = append(gone, one.poll)
		case len(one.in) > 1:
			p.beginScan(one) // which delays no claim in another shard
		}
	}
	p.end(err, gone...)
}

// fails notes that a shard could not be asked for a poll, and reports whether that ends
// it. Where Redis did not carry out the call, or other shards are there, the poll waits on,
// and gets the error only when its wait is over. The mutex is held.
func (one *shardPoll) fails(err error) bool {
	if one.fault == nil {
		one.since = time.Now()
	}
	one.fault = err
	return !isAway(err) || !slices.ContainsFunc(one.in, (*shardPoll).mayAnswer)
}

// mayAnswer reports whether a shard answers, as far as is known, or may do so within the
// time of a failover.
func (one *shardPoll) mayAnswer() bool {
	return one.fault == nil || reach.NotExecuted(one.fault) && time.Since(one.since) < failover
}

// missing returns why a poll whose wait is over could not be served, as far as is known.
// The mutex is held.
func (p *polls) missing(one *poll) error {
	missing := &store.MissingError{}
	for _, in := range one.in {
		if in.fault != nil {
			missing.Add(p.store.Of(in.queues[0].topic), in.fault)
		}
	}
	return missing.Among(len(one.in))
}
