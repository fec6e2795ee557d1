package subscribers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// muchBody is how many bytes of bodies a claim of several topics gathers before it asks
// no further topic: one topic answers with no more at a time, either.
const muchBody = 4 << 20

// ClaimAny is [Claimer.Claim] for up to 32 topics: it leases messages topic by topic in
// the order given, as long as there are fewer than o.Max, or with o.Oldest the oldest of
// all, sorted by due time. Bodies of 4 MiB are enough, too. A caller that waits is woken
// by any of its topics, and gets what that one has ready; it stands in the queue of each,
// and no second claim is made for it while one is under way. Settle the messages of each
// topic by themselves.
//
// Topics that are in several shards are asked for shard by shard, beginning with another
// one each time, for what is left of o.Max; o.Oldest is refused for them. A shard that is
// away is left out while others have messages. If none has any, the error is a
// store.MissingError, which names the shard.
func (c *Claimer) ClaimAny(ctx context.Context, topics []string, options ...ClaimOptions) ([]Delivery, error) {
	o, err := store.Option(options)
	ds, err := c.claimOf(ctx, topics, o, errors.Join(record.CheckTopics(topics), err))
	if o.Oldest {
		slices.SortStableFunc(ds, func(a, b Delivery) int { return a.Due.Compare(b.Due) })
	}
	return ds, err
}

// takeAny claims messages of several topics. If it claims none it returns in how long
// the oldest ready message has the age that is asked for; less than zero: none is ready.
func (l *leases) takeAny(ctx context.Context, topics []string, o ClaimOptions) (ds []Delivery, ripe time.Duration, err error) {
	if len(topics) == 1 {
		return l.take(ctx, topics[0], o)
	}
	parts := byShard(l, topics, func(topic string) string { return topic })
	if len(parts) == 1 {
		return l.takeOfShard(ctx, topics, o)
	}
	return l.takeAcross(ctx, parts, o)
}

// takeOfShard is takeAny for several topics of one shard.
func (l *leases) takeOfShard(ctx context.Context, topics []string, o ClaimOptions) (ds []Delivery, ripe time.Duration, err error) {
	for range 3 { // others may be faster, and what is found may be dead
		found, err := l.heads(ctx, topics, o, reach.Inbox{}, nil)
		if err != nil || len(found.Of) == 0 {
			return nil, found.Ripe, err
		}
		for _, share := range found.Of {
			o.Max = share.Max
			some, _, err := l.take(ctx, topics[share.Topic], o)
			if err != nil && len(ds) == 0 {
				return nil, 0, err
			}
			if ds = append(ds, some...); err != nil || isMuch(ds) {
				break
			}
		}
		if len(ds) > 0 {
			return ds, 0, nil
		}
	}
	return nil, 0, nil
}

// heads shares out a claim among topics of one shard, and lets inbox wait for all of them if there is
// nothing. received are the times of the last hand-overs that the inbox received.
func (l *leases) heads(ctx context.Context, topics []string, o ClaimOptions, inbox reach.Inbox, received []int64) (store.Shares, error) {
	found, err := l.store.Of(topics[0]).ShareOut(ctx, store.ShareOut{Topics: topics, Received: received, Max: o.Max, Oldest: o.Oldest, MinAge: o.MinAge, Inbox: inbox})
	if err != nil {
		return store.Shares{}, fmt.Errorf("claim %s: %w", strings.Join(topics, ", "), err)
	}
	return found, nil
}

// isMuch reports whether messages have so large bodies that no more are claimed with them.
func isMuch(ds []Delivery) bool {
	bytes := 0
	for i := range ds {
		bytes += len(ds[i].Body)
	}
	return bytes >= muchBody
}

// releaseEach releases messages of any topics.
func (l *leases) releaseEach(ctx context.Context, ds []Delivery) (err error) {
	for len(ds) > 0 {
		topic := ds[0].Topic
		var some, others []Delivery
		for _, d := range ds {
			if d.Topic == topic {
				some = append(some, d)
			} else {
				others = append(others, d)
			}
		}
		_, failed := l.releaseMany(ctx, topic, reach.Inbox{}, 0, some)
		err, ds = errors.Join(err, failed), others
	}
	return err
}

// A share is how many messages a poll of several topics takes from one of them next.
type share struct {
	queue *topicQueue
	max   int
}

func (one *poll) ofSeveral() bool { return len(one.queues) > 1 }

// free reports whether a queue may claim for a poll, or give it a message. The mutex is held.
func (one *poll) free(q *topicQueue) bool {
	return !one.over && !one.scanning && (one.asked == nil || one.asked == q) && (len(one.shares) == 0 || one.shares[0].queue == q)
}

// wants returns how much to claim for a poll that is free. The mutex is held.
func (one *poll) wants() int {
	if len(one.shares) > 0 {
		return one.shares[0].max
	}
	return one.max
}

// beginScan has what the topics of a poll have ready be read in one call. The mutex is held.
func (p *polls) beginScan(one *poll) {
	one.scanning, one.shares = true, nil
	p.begin(func() { p.scan(one) })
}

// nextShare lets a poll take from the next topic, or ends it when it has enough. If it
// has nothing, because others were faster, its topics are read again. The mutex is held.
func (p *polls) nextShare(one *poll) {
	one.shares = one.shares[1:]
	switch {
	case len(one.got) > 0 && (len(one.shares) == 0 || isMuch(one.got)):
		p.end(nil, one)
	case len(one.shares) == 0:
		p.beginScan(one)
	default:
		one.shares[0].queue.rung = true // it may have claimed for others meanwhile
	}
}

// scan reads what the topics of a poll have ready, and lets the inbox wait where that is
// nothing. Then their queues claim for it.
func (p *polls) scan(one *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pause backoff.Pause
	for !one.over {
		err := p.read(one)
		if err == nil {
			break
		}
		if !one.over && one.fails(err) {
			p.end(err, one)
			return
		}
		p.mu.Unlock()
		pause.Wait(p.ended)
		p.mu.Lock()
	}
	one.scanning, one.fault = false, nil
	for _, q := range one.queues {
		p.start(q)
	}
}

// read asks the shards of a poll one after the other, each for what is left of its
// messages. One that is away it leaves to its queues if another answers; else the error
// says why. The mutex is held, but while Redis is called.
func (p *polls) read(one *poll) error {
	there, away := inTurn(p.leases, one.parts, func(part []*topicQueue) bool { return p.away(part) != nil })
	if len(there) == 0 {
		there, away = away[:1], away[1:]
	}
	one.shares = nil
	var fault error
	failed, left := 0, one.max
	for _, part := range there {
		if one.over || left == 0 {
			return nil
		}
		taken, err := p.readPart(one, part, left)
		if err != nil && !one.goesOn(err) {
			return err
		}
		if left -= taken; err != nil {
			fault, failed = err, failed+1
		}
	}
	if failed == len(there) {
		return fault
	}
	for _, part := range away {
		setAway(part, p.away(part))
	}
	return nil
}

// readPart makes the call of a scan to one shard, and returns how many messages it shared
// out. The mutex is held, but while Redis is called.
func (p *polls) readPart(one *poll, part []*topicQueue, most int) (taken int, err error) {
	for !one.over && slices.ContainsFunc(part, func(q *topicQueue) bool { return q.leaves }) { // what the call would undo
		p.vacated.Wait()
	}
	if one.over {
		return 0, nil
	}
	topics, received, before := make([]string, len(part)), make([]int64, len(part)), make([]mailbox, len(part))
	for i, q := range part {
		topics[i], received[i], before[i] = q.topic, q.box.received, q.box
		if !q.served && len(q.polls) == 1 {
			q.rung = false // the scan finds what was rung for until now
		}
		q.scans++
	}
	p.mu.Unlock()
	found, err := p.heads(context.Background(), topics, ClaimOptions{Max: most, Oldest: one.oldest}, p.inbox, received)
	p.mu.Lock()
	for _, s := range found.Of {
		q := part[s.Topic]
		q.rung = true // also for others, if this poll waits no more
		one.shares = append(one.shares, share{q, s.Max})
		taken += s.Max
	}
	for _, i := range found.OnTheWay { // it rings when it arrives
		p.ringAfter(part[i], handoverLost())
	}
	if err != nil && one.goesOn(err) {
		setAway(part, err)
	}
	for i, q := range part {
		q.scans--
		if err == nil {
			q.away, q.listed = nil, q.listed || taken == 0
			q.clock.note(found.Now)
			if !slices.Contains(found.OnTheWay, i) {
				q.box.found(found.Now, before[i])
			}
		} else {
			q.rung, q.listed = true, q.listed || !reach.NotExecuted(err)
		}
		p.start(q)
	}
	return taken, err
}

// askedFor notes that the claim of a queue has ended: other queues may claim for its
// polls. The mutex is held.
func (p *polls) askedFor(q *topicQueue) {
	p.answered.Broadcast()
	for _, one := range slices.Clone(q.polls) {
		asked := one.asked == q
		if asked {
			one.asked = nil
		}
		if one.over || !one.ofSeveral() {
			continue
		}
		if len(one.shares) > 0 && one.shares[0].queue == q && (asked || !q.rung || q.away != nil) {
			p.nextShare(one)
		}
		for _, other := range one.queues {
			if other != q {
				p.start(other)
			}
		}
	}
}

// vacate takes the inbox out of the waiting lists of topics of a shard for which no caller waits
// any more, so that other subscribers are rung. Where that fails the next ring has it
// done again.
func (p *polls) vacate(shard store.Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.vacant[shard]
	delete(p.vacant, shard)
	ctx, cancel := context.WithTimeout(context.Background(), reach.SettleFor)
	defer cancel()
	for some := range slices.Chunk(all, record.MaxTopics) {
		topics, received := make([]string, len(some)), make([]int64, len(some))
		for i, q := range some {
			topics[i], received[i] = q.topic, q.box.received
		}
		p.mu.Unlock()
		_ = shard.Leave(ctx, p.inbox, topics, received)
		p.mu.Lock()
		for _, q := range some {
			q.served, q.leaves = false, false
			p.start(q)
		}
		p.vacated.Broadcast()
	}
}
