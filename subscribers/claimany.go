package subscribers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
		found, err := l.shareOut(ctx, topics, o, reach.Inbox{}, nil)
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

// shareOut shares out a claim among topics of one shard, and lets inbox wait for all of them if there is
// nothing. received are the times of the last hand-overs that the inbox received.
func (l *leases) shareOut(ctx context.Context, topics []string, o ClaimOptions, inbox reach.Inbox, received []int64) (store.Shares, error) {
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
