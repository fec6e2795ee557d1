package subscribers

import (
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
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

// slowRead is how long a shard that is read may keep a waiter from what others have.
const slowRead = 20 * time.Millisecond

// readOn has the next shards of a waiter be read, unless it has enough to take. Those that are
// away, or slow to answer, it does not wait for. The mutex is held.
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
			w.waitBriefly(next)
		}
	}
	w.startAll(one)
}

// waitBriefly has a waiter go on without a shard that is read and does not answer soon. The
// mutex is held.
func (w *waiters) waitBriefly(one *shardWaiter) {
	if len(one.in) == 1 {
		return
	}
	time.AfterFunc(slowRead, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.reading == one && !one.over {
			w.readOn(one.waiter)
		}
	})
}

// scan reads what the topics of a waiter in one shard have ready, and lets the inbox wait where
// that is nothing. Then their queues claim for it. A shard that is away is asked until it
// answers, or the waiter is over.
func (w *waiters) scan(one *shardWaiter) {
	var pause backoff.Pause
	for again := true; again; {
		topics, before := w.toRead(one)
		if len(topics) == 0 {
			return
		}
		received := make([]int64, len(before))
		for i := range before {
			received[i] = before[i].received
		}
		found, err := w.shareOut(context.Background(), topics, ClaimOptions{Max: one.max, Oldest: one.oldest}, w.inbox, received)
		if again = w.noteRead(one, before, found, err); again {
			pause.Wait(w.ended)
		}
	}
}

// toRead returns the topics that a scan is to read, and their mailboxes before. There are
// none where the waiter is over.
func (w *waiters) toRead(one *shardWaiter) (topics []string, before []mailbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !one.over && slices.ContainsFunc(one.queues, func(q *topicQueue) bool { return q.leaves }) { // what the call would undo
		w.vacated.Wait()
	}
	if one.over {
		return nil, nil
	}
	for _, q := range one.queues {
		topics, before = append(topics, q.topic), append(before, q.box)
		if !q.served && len(q.waiters) == 1 {
			q.rung = false // the scan finds what was rung for until now
		}
		q.scans++
	}
	return topics, before
}

// noteRead notes what a scan has found, and reports whether it is to be repeated.
func (w *waiters) noteRead(one *shardWaiter, before []mailbox, found store.Shares, err error) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	if one.reading == one {
		w.readOn(one.waiter)
	}
	switch {
	case one.over:
		return false
	case err == nil:
		one.scanning, one.fault = false, nil
		w.startAll(one.waiter)
		return false
	case one.fails(err):
		w.end(err, one.waiter)
		return false
	}
	return true
}

// startAll starts the queues of a waiter. The mutex is held.
func (w *waiters) startAll(one *waiter) {
	for q := range one.all() {
		w.start(q)
	}
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
