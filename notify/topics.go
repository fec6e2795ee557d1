package notify

import (
	"context"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
)

// Counts are the messages of a topic.
type Counts = store.Counts

// Topic counts the messages of a topic; one that was never used has none.
// Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Topic(ctx context.Context, topic string) (Counts, error) {
	if err := store.CheckTopic(topic); err != nil {
		return Counts{}, err
	}
	all, err := p.store.Of(topic).Topics(ctx, []string{topic})
	if err != nil {
		return Counts{}, fmt.Errorf("count %s: %w", topic, err)
	}
	return all[0], nil
}

// Topics counts the messages of every topic that was ever published to, or is
// paused, by name; or of those alone that some patterns name. Each page of some
// hundred topics is counted at one moment. The error is that of the connection.
func (p *Publisher) Topics(ctx context.Context, patterns ...Pattern) ([]Counts, error) {
	var all []string
	for l := p.lookup("", patterns); len(l.spans) > 0; {
		names, _, err := l.next(ctx, namesPage)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		all = append(all, names...)
	}
	return p.countAll(ctx, all)
}

// TopicsAfter is Topics for up to limit of the topics whose names come behind
// another, or all where that is empty. next is where to go on, "" at the end. It
// costs what limit is, however many topics there are: where patterns leave most of
// them out there may be fewer than limit, or none, and more behind next. A pattern
// costs least where its first token is no wildcard. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) TopicsAfter(ctx context.Context, after string, limit int, patterns ...Pattern) (counts []Counts, next string, err error) {
	if limit < 1 {
		return nil, "", store.Faultf("limit", "limit %d: use 1 or more", limit)
	}
	names, next, err := p.namesAfter(ctx, after, limit, patterns)
	if err != nil {
		return nil, "", fmt.Errorf("list topics: %w", err)
	}
	if counts, err = p.countAll(ctx, names); err != nil {
		return nil, "", err
	}
	return counts, next, nil
}

// namesAfter returns the names of a page of topics, and where the next one begins.
func (p *Publisher) namesAfter(ctx context.Context, after string, limit int, patterns []Pattern) (names []string, next string, err error) {
	l := p.lookup(after, patterns)
	page := min(max(limit+1, topicsPage), namesPage)
	for len(l.spans) > 0 {
		more, last, err := l.next(ctx, page)
		if err != nil {
			return nil, "", err
		}
		if names = append(names, more...); len(names) > limit {
			return names[:limit], names[limit-1], nil
		}
		if l.looked >= mostLooked && len(l.spans) > 0 && store.CheckTopic(last) == nil {
			return names, last, nil
		}
	}
	return names, "", nil
}

// CountTopics counts the messages of some topics, in their order; one that was
// never used has none. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) CountTopics(ctx context.Context, topics []string) ([]Counts, error) {
	for _, topic := range topics {
		if err := store.CheckTopic(topic); err != nil {
			return nil, err
		}
	}
	return p.countAll(ctx, topics)
}

// countAll counts the messages of topics, a page at a time.
func (p *Publisher) countAll(ctx context.Context, names []string) ([]Counts, error) {
	all := make([]Counts, 0, len(names))
	for page := range slices.Chunk(names, topicsPage) {
		counts, err := p.store.Only().Topics(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("count topics: %w", err)
		}
		all = append(all, counts...)
	}
	return all, nil
}

// topicsPage is how many topics are counted in one call, which takes Redis about half a millisecond.
const topicsPage = 25
