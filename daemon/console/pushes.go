package console

import (
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	mostCounted = 1_000 // topics of all pushes that are counted for the page
	mostApart   = 100   // pushes of broadcasts, or with patterns, each of which is counted by itself for it
)

var pushesPage = page{
	path: Root + "pushes", title: "Pushes", nav: "pushes", name: "pushes", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.pushes(ctx, v) },
}

// pushesView is what the page of pushes shows.
type pushesView struct {
	*visit
	Now       time.Time
	Rows      []pushRow
	More      int  // that are not shown
	Uncounted bool // there are too many topics to say what is in flight
}

// pushes returns what the page of pushes shows: what is wrong first.
func (c *Console) pushes(ctx context.Context, v *visit) (any, error) {
	if err := v.check("listPushes"); err != nil {
		return nil, err
	}
	view := &pushesView{visit: v, Now: c.now(ctx)}
	var err error
	if view.Rows, err = c.pushesOf(ctx, v); err != nil {
		return view, err
	}
	leased, missing := c.caches.leased.Get(ctx, cache.Keep{Age: relisted}, c.leasedOfPushes)
	view.Uncounted = leased == nil && missing == nil
	view.More = max(0, len(view.Rows)-pushRows)
	view.Rows = view.Rows[:len(view.Rows)-view.More]
	for i := range view.Rows {
		if n, known := leased[view.Rows[i].Name]; known {
			view.Rows[i].Leased = &n
		}
	}
	return view, missing
}

// leasedOfPushes returns how many messages of each push are leased, by name; nil where too many topics would have to be counted. The error
// may be a MissingError, beside those of which that is known.
func (c *Console) leasedOfPushes(ctx context.Context) (map[string]int64, error) {
	all, err := c.allPushes(ctx)
	if err != nil {
		return nil, err
	}
	var topics []string // that pushes name
	apart := 0          // pushes of which each is counted by itself
	for i := range all {
		if isApart(&all[i]) {
			apart++
		} else {
			topics = append(topics, all[i].Topics...)
		}
	}
	if len(topics) > mostCounted || apart > mostApart {
		return nil, nil
	}
	counts, missing := c.snapshots.Count(ctx, topics)
	if missing != nil && !store.IsPartial(missing) {
		return nil, missing
	}
	of := make(map[string]int64, len(topics))
	for _, one := range counts {
		of[one.Topic] = one.Leased
	}
	leased := make(map[string]int64, len(all))
	for i := range all {
		n, err := leasedBy(ctx, c.store, &all[i], of)
		if err != nil && !store.IsPartial(err) {
			return nil, err
		}
		if missing = store.Missing(missing, err); n != nil {
			leased[all[i].Name] = *n
		}
	}
	return leased, missing
}

// isApart reports whether a push has broadcasts or patterns, so that what is leased of it is not in the counts of the topics that it names.
func isApart(p *store.Push) bool {
	return p.Broadcasts || slices.ContainsFunc(p.Topics, func(topic string) bool { return record.CheckTopic(topic) != nil })
}

// leasedBy returns how many messages of a push are leased, given how many of topics are; nil where that is not known.
func leasedBy(ctx context.Context, s *store.Store, p *store.Push, of map[string]int64) (*int64, error) {
	if isApart(p) {
		return store.PushLeased(ctx, s, p)
	}
	sum := int64(0)
	for _, topic := range p.Topics {
		n, known := of[topic]
		if !known {
			return nil, nil
		}
		sum += n
	}
	return &sum, nil
}
