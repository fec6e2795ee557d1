package notify

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
)

// Counts are how many messages a topic has, by state.
type Counts = store.Counts

// topicsPage is how many topics are counted in one call, which takes Redis about half a millisecond.
const topicsPage = 25

// Count returns the counts of topics, in their order; those of a topic that was never
// used are zero. Errors: ErrInvalid, or that of the connection.
func (i *Inspector) Count(ctx context.Context, topics ...string) ([]Counts, error) {
	for _, topic := range topics {
		if err := store.CheckAnyTopic(topic); err != nil {
			return nil, err
		}
	}
	all := make([]Counts, 0, len(topics))
	for page := range slices.Chunk(topics, topicsPage) {
		counts, err := i.store.Only().Topics(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("count topics: %w", err)
		}
		all = append(all, counts...)
	}
	return all, nil
}

// Topics returns the counts of every topic that was ever published to or is paused, by
// name; with patterns, only of topics that match one. It reads 25 topics at a time
// while the loop runs. The last pair has the error of the connection, if there is one.
func (i *Inspector) Topics(ctx context.Context, patterns ...Pattern) iter.Seq2[Counts, error] {
	return func(yield func(Counts, error) bool) {
		for l := i.lookup("", patterns); len(l.spans) > 0; {
			names, _, err := l.next(ctx, namesPage)
			if err != nil {
				yield(Counts{}, fmt.Errorf("list topics: %w", err))
				return
			}
			if !i.countEach(ctx, names, yield) {
				return
			}
		}
	}
}

// countEach yields the counts of topics, and reports whether the loop goes on.
func (i *Inspector) countEach(ctx context.Context, names []string, yield func(Counts, error) bool) bool {
	for page := range slices.Chunk(names, topicsPage) {
		counts, err := i.Count(ctx, page...)
		if err != nil {
			yield(Counts{}, err)
			return false
		}
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
// connection.
func (i *Inspector) TopicsAfter(ctx context.Context, after string, limit int, patterns ...Pattern) (counts []Counts, next string, err error) {
	if limit < 1 {
		return nil, "", store.Faultf("limit", "limit %d: use 1 or more", limit)
	}
	names, next, err := i.namesAfter(ctx, after, limit, patterns)
	if err != nil {
		return nil, "", fmt.Errorf("list topics: %w", err)
	}
	if counts, err = i.Count(ctx, names...); err != nil {
		return nil, "", err
	}
	return counts, next, nil
}

// namesAfter returns the names of a page of topics, and where the next one begins.
func (i *Inspector) namesAfter(ctx context.Context, after string, limit int, patterns []Pattern) (names []string, next string, err error) {
	l := i.lookup(after, patterns)
	page := min(max(limit+1, topicsPage), namesPage)
	for len(l.spans) > 0 {
		more, last, err := l.next(ctx, page)
		if err != nil {
			return nil, "", err
		}
		if names = append(names, more...); len(names) > limit {
			return names[:limit], names[limit-1], nil
		}
		if l.read >= mostRead && len(l.spans) > 0 && store.CheckAnyTopic(last) == nil {
			return names, last, nil
		}
	}
	return names, "", nil
}
