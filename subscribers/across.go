package subscribers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A claim of topics in several shards asks one shard after the other, beginning with a
// different one each time, for what is left of its messages. It waits in all of them, with
// an inbox that is rung and not handed to. A shard that is away, because it cannot be
// reached or does not answer, delays the claim once: from then on others serve the claim
// while somebody else finds out when that one answers.

// spans reports whether some topics are in several shards. There the error is a Fault for
// the oldest of all.
func (c *Claimer) spans(ctx context.Context, topics []string, oldest bool) (bool, error) {
	if len(topics) == 1 {
		return false, nil
	}
	first, err := c.store.ShardOf(ctx, topics[0])
	if err != nil {
		return false, fmt.Errorf("claim %s: %w", strings.Join(topics, ", "), err)
	}
	i := slices.IndexFunc(topics, func(topic string) bool { return c.store.Of(topic) != first })
	if i < 0 || !oldest {
		return i > 0, nil
	}
	return true, fault.New("order", "order oldest: %s is in shard %s and %s in shard %s, and messages of several shards have no common order; claim topics of one shard, or in the order given",
		topics[0], first.Label(), topics[i], c.store.Of(topics[i]).Label())
}

// byShard parts what belongs to topics by their shards.
func byShard[T any](l *leases, all []T, topic func(T) string) (parts [][]T) {
	var shards []store.Shard
	for _, one := range all {
		shard := l.store.Of(topic(one))
		i := slices.Index(shards, shard)
		if i < 0 {
			i, shards, parts = len(shards), append(shards, shard), append(parts, nil)
		}
		parts[i] = append(parts[i], one)
	}
	return parts
}

// inTurn returns the parts of a claim in the order in which to ask for them: another one is
// the first each time. Those that are away come by themselves.
func inTurn[T any](l *leases, parts [][]T, isAway func([]T) bool) (there, away [][]T) {
	if len(parts) == 1 {
		return parts, nil
	}
	first := int(l.turns.Add(1) % uint64(len(parts)))
	for i := range parts {
		if part := parts[(first+i)%len(parts)]; isAway(part) {
			away = append(away, part)
		} else {
			there = append(there, part)
		}
	}
	return there, away
}

// isAway reports whether an error says that a shard is away, and not that a call was wrong.
func isAway(err error) bool { return reach.Retryable(err) || reach.LockedOut(err) }

// goesOn reports whether a claim of several shards goes on with others after an error of
// one. It ends where messages may have been acknowledged for it.
func goesOn(ackNow bool, err error) bool {
	return isAway(err) && (!ackNow || reach.NotExecuted(err))
}

// takeAcross is takeAny for topics of several shards. It asks those that are away when the
// others have nothing, if they answer.
func (l *leases) takeAcross(ctx context.Context, parts [][]string, o ClaimOptions) (ds []Delivery, ripe time.Duration, err error) {
	there, away := inTurn(l, parts, func(part []string) bool { return l.store.Of(part[0]).Trouble() != nil })
	missing := &store.MissingError{}
	ds, ripe, err = l.takeEach(ctx, there, o, missing)
	if err == nil && len(ds) == 0 && len(away) > 0 {
		var first time.Duration
		ds, first, err = l.takeEach(ctx, l.answering(ctx, away, missing), o, missing)
		ripe = sooner(ripe, first)
	}
	if err == nil && len(ds) == 0 {
		err = missing.Among(len(parts))
	}
	return ds, ripe, err
}

// takeEach is takeAcross for shards that are not away, as far as is known. It notes which
// are missing.
func (l *leases) takeEach(ctx context.Context, parts [][]string, o ClaimOptions, missing *store.MissingError) (ds []Delivery, ripe time.Duration, err error) {
	ripe = -1
	for _, part := range parts {
		some, first, err := l.takeOfShard(ctx, part, o)
		switch {
		case err == nil:
			ripe = sooner(ripe, first)
		case goesOn(o.AckNow, err):
			missing.Add(l.store.Of(part[0]), err)
		case len(ds) == 0:
			return nil, 0, err
		default:
			return ds, ripe, nil
		}
		ds = append(ds, some...)
		if o.Max -= len(some); o.Max == 0 || isMuch(ds) {
			break
		}
	}
	return ds, ripe, nil
}

// answering asks shards that were away, all at once, and returns the parts of those that
// answer now. The others it notes as missing.
func (l *leases) answering(ctx context.Context, parts [][]string, missing *store.MissingError) (there [][]string) {
	errs := make([]error, len(parts))
	var asking sync.WaitGroup
	for i, part := range parts {
		asking.Go(func() { errs[i] = l.ping(ctx, part[0]) })
	}
	asking.Wait()
	for i, part := range parts {
		if errs[i] == nil {
			there = append(there, part)
		} else {
			missing.Add(l.store.Of(part[0]), errs[i])
		}
	}
	return there
}

// ping asks the shard of a topic by a call that changes nothing.
func (l *leases) ping(ctx context.Context, topic string) error {
	_, err := l.heads(ctx, []string{topic}, ClaimOptions{Max: 1}, reach.Inbox{}, nil)
	return err
}

// sooner returns the shorter of two times; less than zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// away returns why the shard of some queues is away; nil: it is there, as far as is known.
func (p *polls) away(part []*topicQueue) error {
	for _, q := range part {
		if q.away != nil {
			return q.away
		}
	}
	return p.store.Of(part[0].topic).Trouble()
}

// setAway leaves a shard that is away to its queues: they find out when it answers. The
// mutex is held.
func setAway(part []*topicQueue, err error) {
	for _, q := range part {
		q.away, q.rung = err, true
	}
}

// probe asks the shard of a queue that was away whether it answers. It does so for no poll,
// so that others may serve each of them. The mutex is held, but while Redis is called.
func (p *polls) probe(q *topicQueue) (answered bool) {
	p.mu.Unlock()
	err := p.ping(context.Background(), q.topic)
	p.mu.Lock()
	if q.away = err; err != nil && !isAway(err) { // a claim has the same fault
		q.away = nil
	}
	return q.away == nil
}

// goesOn reports whether a poll goes on after an error of one of its shards.
func (one *poll) goesOn(err error) bool {
	return len(one.parts) > 1 && goesOn(one.terms.ackNow, err)
}

// missing returns why a poll whose wait is over could not be served, as far as is known.
// The mutex is held.
func (p *polls) missing(one *poll) error {
	if one.fault != nil || len(one.parts) < 2 {
		return one.fault
	}
	missing := &store.MissingError{}
	for _, part := range one.parts {
		if err := p.away(part); err != nil {
			missing.Add(p.store.Of(part[0].topic), err)
		}
	}
	return missing.Among(len(one.parts))
}
