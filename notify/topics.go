package notify

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Counts are how many messages a topic has, by state.
type Counts = store.Counts

// topicsPage is how many topics are counted in one call, which takes Redis about half a millisecond.
const topicsPage = 25

// A MissingError is the error of a call on all shards of which some did not answer. The
// call returns what the others answered beside it.
type MissingError = store.MissingError

// Count returns the counts of topics, in their order; those of a topic that was never
// used are zero. Errors: ErrInvalid, or that of the connection; or a [MissingError] beside
// the counts of the topics of other shards.
func (i *Inspector) Count(ctx context.Context, topics ...string) ([]Counts, error) {
	for _, topic := range topics {
		if err := record.CheckAnyTopic(topic); err != nil {
			return nil, err
		}
	}
	all, err := i.count(ctx, topics)
	if err != nil {
		err = fmt.Errorf("count topics: %w", err)
	}
	return all, err
}

func (i *Inspector) count(ctx context.Context, topics []string) ([]Counts, error) {
	parts := make(map[store.Shard][]string, 1)
	for _, topic := range topics {
		shard, err := i.store.ShardOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		parts[shard] = append(parts[shard], topic)
	}
	shards := slices.SortedFunc(maps.Keys(parts), func(a, b store.Shard) int { return a.Number() - b.Number() })
	answers, err := store.GatherFrom(ctx, shards, func(ctx context.Context, shard store.Shard) ([]Counts, error) {
		return countIn(ctx, shard, parts[shard])
	})
	found := make(map[string]Counts, len(topics))
	for _, answer := range answers {
		for _, counts := range answer {
			found[counts.Topic] = counts
		}
	}
	all := make([]Counts, 0, len(topics))
	for _, topic := range topics {
		if counts, there := found[topic]; there {
			all = append(all, counts)
		}
	}
	return all, err
}

// countIn returns the counts of topics of one shard.
func countIn(ctx context.Context, shard store.Shard, topics []string) (all []Counts, err error) {
	for page := range slices.Chunk(topics, topicsPage) {
		counts, err := shard.Topics(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, counts...)
	}
	return all, nil
}

// Topics returns the counts of every topic that was ever published to or is paused, by
// name; with patterns, only of topics that match one. It reads 25 topics at a time
// while the loop runs, of each shard. The last pair has the error of the connection, if
// there is one: a [MissingError] behind the topics of other shards.
func (i *Inspector) Topics(ctx context.Context, patterns ...Pattern) iter.Seq2[Counts, error] {
	return func(yield func(Counts, error) bool) {
		l, err := i.lookup(ctx, "", patterns)
		for err == nil && len(l.spans) > 0 {
			var names []string
			if names, _, err = l.next(ctx, namesPage); err == nil && !i.countEach(ctx, l, names, yield) {
				return
			}
		}
		if err = store.Missing(err, l.missing); err != nil {
			yield(Counts{}, fmt.Errorf("list topics: %w", err))
		}
	}
}

// countEach yields the counts of topics, and reports whether the loop goes on. It notes
// the shards that are missing in their lookup.
func (i *Inspector) countEach(ctx context.Context, l *lookup, names []string, yield func(Counts, error) bool) bool {
	for page := range slices.Chunk(names, topicsPage*len(l.shards)) {
		counts, err := i.Count(ctx, page...)
		if err != nil && !store.IsPartial(err) {
			yield(Counts{}, err)
			return false
		}
		l.missing = store.Missing(l.missing, err)
		for _, one := range counts {
			if !yield(one, nil) {
				return false
			}
		}
	}
	return true
}

// TopicsAfter returns a page of Topics: up to limit topics whose names come behind
// after; an empty name is before all. next is the name to go on from, "" at the end.
// The cost grows with limit, not with the number of topics: if patterns leave out most
// topics, a page may have fewer than limit, or none, before the end. A pattern costs
// least if its first token is no wildcard. Errors: ErrInvalid, or that of the
// connection; or a [MissingError] beside the page of the topics of other shards.
func (i *Inspector) TopicsAfter(ctx context.Context, after string, limit int, patterns ...Pattern) (counts []Counts, next string, err error) {
	if limit < 1 {
		return nil, "", fault.New("limit", "limit %d: use 1 or more", limit)
	}
	names, next, missing := i.namesAfter(ctx, after, limit, patterns)
	if missing != nil && !store.IsPartial(missing) {
		return nil, "", fmt.Errorf("list topics: %w", missing)
	}
	counts, err = i.Count(ctx, names...)
	if err = store.Missing(err, missing); err != nil {
		err = fmt.Errorf("list topics: %w", err)
	}
	return counts, next, err
}

// namesAfter returns the names of a page of topics, and where the next one begins. Errors:
// that of the connection, or a MissingError beside the names.
func (i *Inspector) namesAfter(ctx context.Context, after string, limit int, patterns []Pattern) (names []string, next string, err error) {
	l, err := i.lookup(ctx, after, patterns)
	if err != nil {
		return nil, "", err
	}
	page := min(max(limit+1, topicsPage), namesPage)
	for len(l.spans) > 0 {
		more, last, err := l.next(ctx, page)
		if err != nil {
			return nil, "", err
		}
		if names = append(names, more...); len(names) > limit {
			return names[:limit], names[limit-1], l.missing
		}
		if l.read >= mostRead && len(l.spans) > 0 && record.CheckAnyTopic(last) == nil {
			return names, last, l.missing
		}
	}
	return names, "", l.missing
}
