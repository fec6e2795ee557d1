package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	byName       = 200       // topics by name that a sorted table compares beside those that stand out
	mostLooks    = 20        // pages of names that are read for one page of the table
	mostBranches = 1_000     // that each shard reads for a page by name
	defaultFor   = "overdue" // order of topics
)

var topicsPage = page{
	path: Root + "topics", title: "Topics", nav: "topics", name: "topics", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.topics(ctx, v) },
}

// topicsView is what the page of topics shows.
type topicsView struct {
	*visit
	Pattern string
	Sort    string
	Heads   []head
	Rows    []counted
	Covers  string // which topics were compared
	Before  string // address of the page before; empty: this is the first
	Next    string // address of the next page; empty: this is the last
	Exact   string // address of the topic that the pattern names
}

// A head is the head of a column, by which the table can be sorted where it has a link.
type head struct {
	Name   string
	Link   string
	Sorted string // value of aria-sort
	Number bool
}

// A topicOrder is one by which topics can be sorted: those that stand out come from lists
// of the survey, and are named by what.
type topicOrder struct {
	lists func(s notify.Survey) [][]notify.Notable
	what  string
	less  func(a, b counted) int
}

var topicOrders = map[string]topicOrder{
	"overdue": {
		func(s notify.Survey) [][]notify.Notable { return [][]notify.Notable{s.Overdue, s.Behind} }, "overdue longest",
		func(a, b counted) int { return cmp.Compare(b.overdue(), a.overdue()) },
	},
	"ready": {
		func(s notify.Survey) [][]notify.Notable { return [][]notify.Notable{s.Overdue, s.Paused} }, "overdue longest, or paused",
		func(a, b counted) int { return cmp.Compare(b.Ready, a.Ready) },
	},
	"dead": {
		func(s notify.Survey) [][]notify.Notable { return [][]notify.Notable{s.Deaths} }, "with the newest deaths",
		func(a, b counted) int { return cmp.Compare(b.Dead, a.Dead) },
	},
	"rate": {
		func(s notify.Survey) [][]notify.Notable { return [][]notify.Notable{s.Busy} }, "published to lately",
		func(a, b counted) int { return cmp.Compare(b.Per.Sum(), a.Per.Sum()) },
	},
}

// topics returns what the page of topics shows.
func (c *Console) topics(ctx context.Context, v *visit) (any, error) {
	view := &topicsView{visit: v, Pattern: v.query("pattern"), Sort: cmp.Or(v.query("sort"), defaultFor)}
	view.Heads = view.heads()
	in, err := v.scope(view.Pattern)
	if err != nil {
		return view, err
	}
	var part topicsPart
	if view.Sort == "name" {
		part, err = c.topicsByName(ctx, in, v.query("after"))
	} else {
		part, err = c.topicsSorted(ctx, in, view.Sort)
	}
	if err != nil && !store.IsPartial(err) {
		return view, err
	}
	names := view.cut(part)
	var missing error
	view.Rows, missing = c.rated(ctx, names)
	if record.CheckTopic(view.Pattern) == nil && v.Sees(view.Pattern) {
		view.Exact = topicPath(view.Pattern)
	}
	return view, store.Missing(err, missing)
}

// heads returns the heads of the columns.
func (t *topicsView) heads() []head {
	all := []head{{Name: "Topic"}, {Name: "State"}, {Name: "Overdue"}, {Name: "Ready"}, {Name: "Scheduled"}, {Name: "Leased"}, {Name: "Dead"}, {Name: "Waiting"}, {Name: "A second"}}
	sorts := map[string]string{"Topic": "name", "Overdue": "overdue", "Ready": "ready", "Dead": "dead", "A second": "rate"}
	for i := range all {
		h := &all[i]
		h.Number = i > 1
		if by := sorts[h.Name]; by != "" {
			h.Link = t.Link("sort", by, "page", "", "after", "")
			if by == t.Sort {
				h.Sorted = "descending"
			}
		}
	}
	if t.Sort == "name" {
		all[0].Sorted = "ascending"
	}
	return all
}

// cut returns the names on the page, and sets the addresses of the pages beside it.
func (t *topicsView) cut(part topicsPart) []string {
	t.Covers = part.covers
	if t.Sort == "name" {
		if t.query("after") != "" {
			t.Before = t.Link("after", "")
		}
		if part.next != "" {
			t.Next = t.Link("after", part.next)
		}
		return part.names
	}
	n, _ := strconv.Atoi(t.query("page"))
	n = max(1, min(n, (len(part.names)+topicRows-1)/topicRows))
	if n > 1 {
		t.Before = t.Link("page", strconv.Itoa(n-1))
	}
	from, to := (n-1)*topicRows, min(n*topicRows, len(part.names))
	if to < len(part.names) {
		t.Next = t.Link("page", strconv.Itoa(n+1))
	}
	return part.names[from:to]
}

// namesAfter returns the topics in a scope among those of a page of names behind a name, and where the next page begins.
func (c *Console) namesAfter(ctx context.Context, in scope, after string, most int) (names []string, next string, err error) {
	if len(in.patterns) == 0 {
		return nil, "", nil
	}
	counts, next, err := c.inspector.TopicsAfter(ctx, after, most, in.patterns...)
	for _, one := range counts {
		if in.has(one.Topic) {
			names = append(names, one.Topic)
		}
	}
	return names, next, err
}

// topicsByName returns the names of a page of topics behind a name.
func (c *Console) topicsByName(ctx context.Context, in scope, after string) (topicsPart, error) {
	if after != "" && record.CheckAnyTopic(after) != nil {
		return topicsPart{}, fault.New("after", "after %.100q: follow the links of the table, or leave it out", after)
	}
	return c.caches.topics.Get(ctx, "name "+after+" "+in.key, cache.Keep{Age: reordered}, func(ctx context.Context) (part topicsPart, err error) {
		var missing error
		before := after
		for range mostLooks {
			names, next, err := c.namesAfter(ctx, in, after, topicRows-len(part.names))
			if err != nil && !store.IsPartial(err) {
				return part, err
			}
			missing = store.Missing(missing, err)
			part.names = append(part.names, names...)
			if after, part.next = next, next; next == "" || len(part.names) >= topicRows {
				break
			}
		}
		if part.next != "" && len(part.names) < topicRows {
			part.covers = "Topics up to " + part.next + " were looked at: go on to see those behind it."
		}
		branches, err := c.branchesOf(ctx, in, part.next)
		if err != nil && !store.IsPartial(err) {
			return part, err
		}
		part.names = inPlace(append(part.names, branches...), before)
		return part, store.Missing(missing, err)
	})
}

// branchesOf returns the branches in a scope that come behind a name, but whose topics do not: by bytes order.paid.eu stands between
// order.paid and order.paid@mail. Without a name there are none.
func (c *Console) branchesOf(ctx context.Context, in scope, name string) (all []string, err error) {
	var ranges []record.Names
	for i := range name {
		if name[i] <= '@' {
			ranges = append(ranges, record.Names{From: name[:i] + "@", To: name[:i] + "A"}) // the byte after an @
		}
	}
	if name == "" {
		return nil, nil
	}
	ranges = append(ranges, record.Names{From: name + "@", To: name + "A"})
	parts, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) ([]string, error) {
		return shard.TopicNames(ctx, mostBranches, ranges)
	})
	return slices.DeleteFunc(slices.Concat(parts...), func(topic string) bool { return !in.has(topic) }), err
}

// inPlace returns names of topics in their order, each with its branches below it, but those of topics up to one: the page before has these.
func inPlace(names []string, before string) []string {
	names = slices.DeleteFunc(names, func(topic string) bool {
		of, branch := record.SplitBranch(topic)
		return branch != "" && of <= before
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(record.PlaceOf(a), record.PlaceOf(b)) })
	return slices.Compact(names)
}

// topicsSorted returns the names of the topics that stand out, and of the first by name, in
// an order.
func (c *Console) topicsSorted(ctx context.Context, in scope, by string) (topicsPart, error) {
	order, known := topicOrders[by]
	if !known {
		return topicsPart{}, fault.New("sort", "sort %.100q: use overdue, ready, dead, rate or name", by)
	}
	return c.caches.topics.Get(ctx, by+" "+in.key, cache.Keep{Age: reordered}, func(ctx context.Context) (part topicsPart, err error) {
		survey, missing := c.snapshots.Survey(ctx)
		if missing != nil && !store.IsPartial(missing) {
			return part, missing
		}
		known := make(map[string]bool)
		names := notableIn(in, known, order.lists(survey))
		first, next, err := c.namesAfter(ctx, in, "", byName)
		if err != nil && !store.IsPartial(err) {
			return part, err
		}
		missing = store.Missing(missing, err)
		names = append(names, slices.DeleteFunc(first, func(topic string) bool { return known[topic] })...)
		all, err := c.rated(ctx, names)
		slices.SortStableFunc(all, func(a, b counted) int {
			return cmp.Or(order.less(a, b), cmp.Compare(b.Dead, a.Dead), cmp.Compare(record.PlaceOf(a.Topic), record.PlaceOf(b.Topic)))
		})
		for _, one := range all {
			part.names = append(part.names, one.Topic)
		}
		if next != "" {
			part.covers = fmt.Sprintf("These are compared: of the topics %s those that are here, up to %d of each shard's index, and the first %d by name.", order.what, snapshots.Notables, byName)
		}
		return part, store.Missing(missing, err)
	})
}

// pauseAct pauses or resumes a topic: the form has a button named pause or resume for each.
var pauseAct = act{path: Root + "acts/topics", name: "pause or resume", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	what, topic, err := v.button("pause", "resume")
	if err != nil {
		return "", 0, err
	}
	_, err = ask[any](ctx, c, v, what, "topic", topic)
	c.forget(topic)
	return past[what] + " " + topic, oneIf(err), err
}}
