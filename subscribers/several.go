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
	"github.com/bellhopd/bellhop/notify/store/fault"
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
// one each time; o.Oldest is refused for them. A shard that is away is left out while
// others have messages. If none has any, the error is a store.MissingError, which names
// the shard.
func (c *Claimer) ClaimAny(ctx context.Context, topics []string, options ...ClaimOptions) ([]Delivery, error) {
	o, err := store.Option(options)
	ds, err := c.claimOf(ctx, topics, o, errors.Join(record.CheckTopics(topics), err))
	if o.Oldest {
		slices.SortStableFunc(ds, func(a, b Delivery) int { return a.Due.Compare(b.Due) })
	}
	return ds, err
}

// checkShards learns in which shards topics are, and reports a Fault for the oldest of several.
func (c *Claimer) checkShards(ctx context.Context, topics []string, oldest bool) error {
	if len(topics) == 1 {
		return nil
	}
	first, err := c.store.ShardOf(ctx, topics[0])
	if err != nil {
		return fmt.Errorf("claim %s: %w", strings.Join(topics, ", "), err)
	}
	i := slices.IndexFunc(topics, func(topic string) bool { return c.store.Of(topic) != first })
	if i < 0 || !oldest {
		return nil
	}
	return fault.New("order", "order oldest: %s is in shard %s and %s in shard %s, and messages of several shards have no common order; claim topics of one shard, or in the order given",
		topics[0], first.Label(), topics[i], c.store.Of(topics[i]).Label())
}

// takeAny claims messages of several topics. If it claims none it returns in how long
// the oldest ready message has the age that is asked for; less than zero: none is ready.
func (l *leases) takeAny(ctx context.Context, topics []string, o ClaimOptions) (ds []Delivery, ripe time.Duration, err error) {
	if len(topics) == 1 {
		return l.take(ctx, topics[0], o)
	}
	parts := l.byShard(topics)
	if len(parts) == 1 {
		return l.takeOfShard(ctx, topics, o)
	}
	return l.takeAcross(ctx, parts, o)
}

// takeAcross is takeAny for topics of several shards. It asks one shard after the other for
// what is left of the messages, and where these have none one of those that are away, too.
func (l *leases) takeAcross(ctx context.Context, parts [][]string, o ClaimOptions) (ds []Delivery, ripe time.Duration, err error) {
	missing, asked := &store.MissingError{}, false
	ripe = -1
	for _, part := range parts {
		shard := l.store.Of(part[0])
		if trouble := shard.Trouble(); trouble != nil {
			if asked || len(ds) > 0 {
				missing.Add(shard, trouble)
				continue
			}
			asked = true
		}
		some, first, err := l.takeOfShard(ctx, part, o)
		switch {
		case err == nil:
			ripe = sooner(ripe, first)
		case isAway(err) && (!o.AckNow || reach.NotExecuted(err)):
			missing.Add(shard, err)
		case len(ds) == 0: // messages may have been acknowledged
			return nil, 0, err
		default:
			return ds, ripe, nil
		}
		ds = append(ds, some...)
		if o.Max -= len(some); o.Max == 0 || isMuch(ds) {
			break
		}
	}
	if len(ds) > 0 {
		return ds, ripe, nil
	}
	return nil, ripe, missing.Among(len(parts))
}

// sooner returns the shorter of two times; less than zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// isAway reports whether an error says that a shard is away, and not that a call was wrong.
func isAway(err error) bool { return reach.Retryable(err) || reach.LockedOut(err) }

// byShard returns topics by their shards, in the order in which to ask them: each time another
// one is the first, and those that are away are the last.
func (l *leases) byShard(topics []string) [][]string {
	if len(topics) == 1 {
		return [][]string{topics}
	}
	parts := make(map[store.Shard][]string)
	var shards []store.Shard
	for _, topic := range topics {
		shard := l.store.Of(topic)
		if parts[shard] == nil {
			shards = append(shards, shard)
		}
		parts[shard] = append(parts[shard], topic)
	}
	first := 0
	if len(shards) > 1 {
		first = int(l.turns.Add(1) % uint64(len(shards)))
	}
	var there, away [][]string
	for _, shard := range slices.Concat(shards[first:], shards[:first]) {
		if shard.Trouble() == nil {
			there = append(there, parts[shard])
		} else {
			away = append(away, parts[shard])
		}
	}
	return append(there, away...)
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

func (one *poll) ofSeveral() bool { return len(one.in) > 1 || len(one.in[0].queues) > 1 }

// free reports whether a queue may claim for a poll, or give it a message. The mutex is held.
func (one *shardPoll) free(q *topicQueue) bool {
	if one.over || one.asked != nil {
		return !one.over && one.asked == q
	}
	return one.reading == nil && !one.scanning && (len(one.shares) == 0 || one.shares[0].queue == q)
}

// wants returns how much a queue is to claim for a poll that is free. The mutex is held.
func (one *poll) wants(q *topicQueue) int {
	left := one.max - len(one.got)
	if len(one.shares) > 0 && one.shares[0].queue == q {
		return min(one.shares[0].max, left)
	}
	return left
}

// beginScan has what the topics of a poll in one shard have ready be read in one call. The
// mutex is held.
func (p *polls) beginScan(one *shardPoll) {
	one.scanning = true
	one.takeFrom(slices.DeleteFunc(one.shares, one.has))
	p.begin(func() { p.scan(one) })
}

// takeFrom has a poll take from topics next. The mutex is held.
func (one *poll) takeFrom(shares []share) {
	if one.shares = shares; len(shares) > 0 {
		shares[0].queue.rung = true // it may have claimed for others meanwhile
	}
}

// has reports whether a share is one of the shard.
func (one *shardPoll) has(s share) bool { return slices.Contains(one.queues, s.queue) }

// nextShare lets a poll take from the next topic, or ends it when it has enough. If it
// has nothing, because others were faster, its topics are read again. The mutex is held.
func (p *polls) nextShare(one *shardPoll) {
	one.takeFrom(one.shares[1:])
	switch {
	case len(one.got) > 0 && (len(one.shares) == 0 || len(one.got) == one.max || isMuch(one.got)):
		p.end(nil, one.poll)
	case len(one.got) == 0 && !slices.ContainsFunc(one.shares, one.has):
		p.beginScan(one)
		p.readOn(one.poll)
	}
}

// readOn has the next shards of a poll be read, unless it has enough to take. Those that are
// away it does not wait for. The mutex is held.
func (p *polls) readOn(one *poll) {
	one.reading = nil
	most := 0
	for _, s := range one.shares {
		most += s.max
	}
	for one.reading == nil && len(one.unread) > 0 && most < one.max {
		next := one.unread[0]
		one.unread = one.unread[1:]
		p.beginScan(next)
		if p.store.Of(next.queues[0].topic).Trouble() == nil {
			one.reading = next
		}
	}
	p.startAll(one)
}

// scan reads what the topics of a poll in one shard have ready, and lets the inbox wait where
// that is nothing. Then their queues claim for it. A shard that is away is asked until it
// answers, or the poll is over.
func (p *polls) scan(one *shardPoll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pause backoff.Pause
	for !one.over {
		err := p.read(one)
		if one.reading == one {
			p.readOn(one.poll)
		}
		if err == nil || one.over {
			break
		}
		if one.fails(err) {
			p.end(err, one.poll)
			return
		}
		p.mu.Unlock()
		pause.Wait(p.ended)
		p.mu.Lock()
	}
	one.scanning, one.fault = false, nil
	p.startAll(one.poll)
}

// startAll starts the queues of a poll. The mutex is held.
func (p *polls) startAll(one *poll) {
	for q := range one.all() {
		p.start(q)
	}
}

// read makes the call of a scan. The mutex is held, but while Redis is called.
func (p *polls) read(one *shardPoll) error {
	for !one.over && slices.ContainsFunc(one.queues, func(q *topicQueue) bool { return q.leaves }) { // what the call would undo
		p.vacated.Wait()
	}
	if one.over {
		return nil
	}
	topics, received, before := make([]string, len(one.queues)), make([]int64, len(one.queues)), make([]mailbox, len(one.queues))
	for i, q := range one.queues {
		topics[i], received[i], before[i] = q.topic, q.box.received, q.box
		if !q.served && len(q.polls) == 1 {
			q.rung = false // the scan finds what was rung for until now
		}
		q.scans++
	}
	p.mu.Unlock()
	found, err := p.heads(context.Background(), topics, ClaimOptions{Max: one.max, Oldest: one.oldest}, p.inbox, received)
	p.mu.Lock()
	for _, s := range found.Of {
		q := one.queues[s.Topic]
		q.rung = true // also for others, if this poll waits no more
		one.shares = append(one.shares, share{q, s.Max})
	}
	for _, i := range found.OnTheWay { // it rings when it arrives
		p.ringAfter(one.queues[i], handoverLost())
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
		p.start(q)
	}
	return err
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
		if len(one.shares) > 0 && one.shares[0].queue == q && (asked || !q.rung) {
			p.nextShare(one)
		}
		p.startAll(one.poll)
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
