package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	pushRows       = 200   // on the page
	mostCounted    = 1_000 // topics of all pushes that are counted for the page
	mostApart      = 100   // pushes of broadcasts, or with patterns, each of which is counted by itself for it
	shownOfAnswers = 120   // characters of the last answer in a row
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

// A pushRow is a push in the table. It has no secrets.
type pushRow struct{ api.Push }

// Link returns the address of the page of the push.
func (p pushRow) Link() string { return pushPath(p.Name) }

// pushPath returns the address of the page of a push.
func pushPath(name string) string { return "pushes/" + url.PathEscape(name) }

// Target returns where the push leads.
func (p pushRow) Target() string { return cmp.Or(p.URL, p.To) }

// State says what the push does, and Class is the class of the style of that.
func (p pushRow) State() string {
	switch {
	case p.Paused != "":
		return "paused"
	case p.Failing != nil:
		return "fails"
	case len(p.Unheard) > 0:
		return "nobody listens"
	}
	return "works"
}

func (p pushRow) Class() string {
	switch p.State() {
	case "paused":
		return "paused"
	case "works":
		return "ok"
	}
	return "late"
}

// Answer returns the last answer of an endpoint that fails, as far as there is room for it.
func (p pushRow) Answer() string {
	if p.Failing == nil {
		return ""
	}
	if text := []rune(p.Failing.Answer); len(text) > shownOfAnswers {
		return string(text[:shownOfAnswers]) + "…"
	}
	return p.Failing.Answer
}

// mayPush reports whether a viewer may see and change a push.
func mayPush(v *visit, topics []string) bool {
	return v.Has(calls.MayPush) && !slices.ContainsFunc(topics, func(topic string) bool { return v.AllowTopic(topic) != nil })
}

// pushes returns what the page of pushes shows: what is wrong first.
func (c *Console) pushes(ctx context.Context, v *visit) (any, error) {
	if !v.Has(calls.MayPush) {
		return nil, api.ErrForbidden
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

// pushesOf returns the pushes of which a viewer sees all topics: those that fail first, then by name.
func (c *Console) pushesOf(ctx context.Context, v *visit) (rows []pushRow, err error) {
	all, err := c.allPushes(ctx)
	for i := range all {
		if mayPush(v, all[i].Topics) {
			rows = append(rows, c.pushRow(&all[i]))
		}
	}
	rank := func(p pushRow) int { return slices.Index([]string{"late", "ok", "paused"}, p.Class()) }
	slices.SortStableFunc(rows, func(a, b pushRow) int { return cmp.Compare(rank(a), rank(b)) })
	return rows, err
}

// failingPushes returns the pushes whose endpoints fail, of those that a viewer may see.
func (c *Console) failingPushes(ctx context.Context, v *visit) []pushRow {
	if !v.Has(calls.MayPush) {
		return nil
	}
	rows, _ := c.pushesOf(ctx, v) // the fault of Redis is that of the survey
	return slices.DeleteFunc(rows, func(p pushRow) bool { return p.Paused != "" || p.Failing == nil })
}

// allPushes returns all pushes, by name.
func (c *Console) allPushes(ctx context.Context) ([]store.Push, error) {
	return c.caches.pushes.Get(ctx, cache.Keep{Age: relisted}, c.store.Home().Pushes)
}

// pushRow returns the row of a push, with what this daemon found of it.
func (c *Console) pushRow(p *store.Push) pushRow {
	row := pushRow{api.PushOf(*p)}
	if pusher := c.o.Pusher(); pusher != nil {
		row.Unheard = pusher.Unheard(p)
	}
	return row
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
	counts, missing := c.snapshots.count(ctx, topics)
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
