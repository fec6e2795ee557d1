package subscribers

import (
	"context"
	"slices"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// beginScan has what the topics of a waiter in one shard have ready be read in one call. The
// mutex is held.
func (w *waiters) beginScan(one *shardWaiter) {
	one.scanning = true
	one.takeFrom(slices.DeleteFunc(one.shares, one.has))
	w.begin(func() { w.scan(one) })
}

// nextShare lets a waiter take from the next topic, or ends it when it has enough. If it
// has nothing, because others were faster, its topics are read again. The mutex is held.
func (w *waiters) nextShare(one *shardWaiter) {
	one.takeFrom(one.shares[1:])
	switch {
	case len(one.got) > 0 && (len(one.shares) == 0 || len(one.got) == one.max || isMuch(one.got)):
		w.end(nil, one.waiter)
	case len(one.got) == 0 && !slices.ContainsFunc(one.shares, one.has):
		w.beginScan(one)
		w.readOn(one.waiter)
	}
}

// readOn has the next shards of a waiter be read, unless it has enough to take. Those that are
// away it does not wait for. The mutex is held.
func (w *waiters) readOn(one *waiter) {
	one.reading = nil
	most := 0
	for _, s := range one.shares {
		most += s.max
	}
	for one.reading == nil && len(one.unread) > 0 && most < one.max {
		next := one.unread[0]
		one.unread = one.unread[1:]
		w.beginScan(next)
		if w.store.Of(next.queues[0].topic).Trouble() == nil {
			one.reading = next
		}
	}
	w.startAll(one)
}

// scan reads what the topics of a waiter in one shard have ready, and lets the inbox wait where
// that is nothing. Then their queues claim for it. A shard that is away is asked until it
// answers, or the waiter is over.
func (w *waiters) scan(one *shardWaiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pause backoff.Pause
	for !one.over {
		err := w.read(one)
		if one.reading == one {
			w.readOn(one.waiter)
		}
		if err == nil || one.over {
			break
		}
		if one.fails(err) {
			w.end(err, one.waiter)
			return
		}
		w.mu.Unlock()
		pause.Wait(w.ended)
		w.mu.Lock()
	}
	one.scanning, one.fault = false, nil
	w.startAll(one.waiter)
}

// startAll starts the queues of a waiter. The mutex is held.
func (w *waiters) startAll(one *waiter) {
	for q := range one.all() {
		w.start(q)
	}
}

// read makes the call of a scan. The mutex is held, but while Redis is called.
func (w *waiters) read(one *shardWaiter) error {
	for !one.over && slices.ContainsFunc(one.queues, func(q *topicQueue) bool { return q.leaves }) { // what the call would undo
		w.vacated.Wait()
	}
	if one.over {
		return nil
	}
	topics, received, before := make([]string, len(one.queues)), make([]int64, len(one.queues)), make([]mailbox, len(one.queues))
	for i, q := range one.queues {
		topics[i], received[i], before[i] = q.topic, q.box.received, q.box
		if !q.served && len(q.waiters) == 1 {
			q.rung = false // the scan finds what was rung for until now
		}
		q.scans++
	}
	w.mu.Unlock()
	found, err := w.heads(context.Background(), topics, ClaimOptions{Max: one.max, Oldest: one.oldest}, w.inbox, received)
	w.mu.Lock()
	for _, s := range found.Of {
		q := one.queues[s.Topic]
		q.rung = true // also for others, if this waiter waits no more
		one.shares = append(one.shares, share{q, s.Max})
	}
	for _, i := range found.OnTheWay { // it rings when it arrives
		w.ringAfter(one.queues[i], handoverLost())
	}
	for i, q := range one.queues {
		q.scans--
		if err == nil {
			q.listed = q.listed || len(found.Of) == 0
			q.clock.note(found.Now)
			if !slices.Contains(found.OnTheWay, i) {
				q.box.found(found.Now, before[i])
			}
		} else {
			q.rung, q.listed = true, q.listed || !reach.NotExecuted(err)
		}
		w.start(q)
	}
	return err
}

// askedFor notes that the claim of a queue has ended: other queues may claim for its
// waiters. The mutex is held.
func (w *waiters) askedFor(q *topicQueue) {
	w.answered.Broadcast()
	for _, one := range slices.Clone(q.waiters) {
		asked := one.asked == q
		if asked {
			one.asked = nil
		}
		if one.over || !one.ofSeveral() {
			continue
		}
		if len(one.shares) > 0 && one.shares[0].queue == q && (asked || !q.rung) {
			w.nextShare(one)
		}
		w.startAll(one.waiter)
	}
}
