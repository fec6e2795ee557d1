package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	troubleRows = 20               // topics on the overview
	worst       = fewTopics / 4    // topics of each list that are counted for it
	freshDeath  = 15 * time.Minute // for which a death stands out
)

var overviewPage = page{
	path: Root + "{$}", title: "Overview", nav: "overview", name: "overview", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.overview(ctx, v) },
}

// An overview is what the first page shows.
type overview struct {
	notify.Survey
	*visit
	Wrong   []wrong  // what the doctor found, worst first
	Looking bool     // the doctor is, and found nothing yet
	Cut     error    // why the doctor did not find all
	Advice  []string // checks of how things are set up, of which the doctor warns
	Office  snapshots.Office
	Per     *snapshots.Rates // of the whole store; nil: not yet known, or not for this viewer
	Trouble []counted
	More    int               // topics in trouble that are not shown
	AtLeast bool              // there may be more than More
	Unseen  bool              // topics of the viewer may be in trouble and not be among the worst of the store, which were looked at
	Missing bool              // a shard is
	Fullest *snapshots.Server // nil: not for this viewer
	River   *plot

	uncounted int // topics in trouble beyond the worst, which are not counted
}

// Empty reports whether nothing was ever published, as far as the viewer may know.
func (o *overview) Empty() bool {
	return o.CoversAll() && !o.Missing && o.Topics == 0 && o.Published == 0 && o.Sent == 0 && o.Office.Next.IsZero()
}

// overview returns what the first page shows: what is wrong first.
func (c *Console) overview(ctx context.Context, v *visit) (any, error) {
	survey, err := c.snapshots.Survey(ctx)
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	missing := err
	terms, err := c.snapshots.Officers(ctx)
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	o := &overview{Survey: survey, visit: v, Office: snapshots.OfficeOf(terms)}
	if !o.CoversAll() {
		if err := c.lookAtOwn(ctx, o); err != nil {
			if missing = store.Missing(missing, err); !store.IsPartial(missing) {
				return nil, missing
			}
		}
	}
	for _, list := range []*[]notify.Notable{&o.Overdue, &o.Behind, &o.Deaths, &o.Paused} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(n notify.Notable) bool { return !v.Sees(n.Topic) })
	}
	if o.CoversAll() {
		o.Per = c.snapshots.Rates()
	}
	if err := c.trouble(ctx, o); err != nil {
		if missing = store.Missing(missing, err); !store.IsPartial(missing) {
			return nil, missing
		}
	}
	if v.SeesStore() {
		o.Fullest = c.fullest(ctx)
	}
	past, topics := c.storePast, []notify.Pattern(nil)
	if !v.SeesStore() {
		past = c.somePast(v)
	}
	if !v.CoversAll() {
		topics = v.Patterns
	}
	if o.River, err = c.river(ctx, v, "Delivered and due: messages", survey.Now, topics, past); err != nil {
		missing = store.Missing(missing, err)
	}
	o.Missing = missing != nil
	c.wrongs(ctx, o)
	o.AtLeast = o.Unseen || o.isCut()
	cut := max(0, len(o.Trouble)-troubleRows)
	o.Trouble = o.Trouble[:len(o.Trouble)-cut]
	o.More = cut + o.uncounted
	return o, missing
}

// lookAtOwn looks at the topics of a viewer of some by name where a list of the survey is full: the topics of
// others may have taken all places. If these are too many, or counts do not tell what is cut, Unseen is set.
func (c *Console) lookAtOwn(ctx context.Context, o *overview) error {
	o.Unseen = len(o.Behind) >= snapshots.Notables || len(o.freshDeaths()) >= snapshots.Notables
	if len(o.Overdue) < snapshots.Notables && len(o.Paused) < snapshots.Notables {
		return nil
	}
	names, few, missing := c.few(ctx, o.visit)
	if missing != nil && !store.IsPartial(missing) {
		return missing
	}
	if !few {
		o.Unseen = true
		return missing
	}
	all, err := c.ratedWithin(ctx, names, snapshots.StoreEvery)
	o.Overdue, o.Paused = nil, nil
	for _, one := range all {
		late := notify.Notable{Topic: one.Topic, Since: o.Now.Add(-one.Overdue)}
		switch {
		case one.Paused:
			o.Paused = append(o.Paused, late)
		case one.Ready > 0:
			o.Overdue = append(o.Overdue, late)
		}
	}
	slices.SortStableFunc(o.Overdue, func(a, b notify.Notable) int { return a.Since.Compare(b.Since) })
	return store.Missing(missing, err)
}

// fullest returns the server of those with messages that has the least memory left; nil if none is known.
func (c *Console) fullest(ctx context.Context) *snapshots.Server {
	all, _ := c.snapshots.Servers(ctx) // the fault of a server that is away is told by what it holds
	all = slices.DeleteFunc(slices.Clone(all), func(s snapshots.Server) bool { return s.Away != nil || s.Replica })
	if len(all) == 0 {
		return nil
	}
	return new(slices.MaxFunc(all, func(a, b snapshots.Server) int {
		return cmp.Or(cmp.Compare(a.Share(), b.Share()), cmp.Compare(a.Memory.Used, b.Memory.Used))
	}))
}

// trouble finds the topics that need somebody: those that are late first, then those that
// nobody serves, those that are paused with messages ready, those with deaths, and other paused ones.
func (c *Console) trouble(ctx context.Context, o *overview) error {
	lists := [][]notify.Notable{o.Overdue, o.Behind, o.freshDeaths(), o.Paused}
	var names []string
	seen := make(map[string]bool)
	for _, list := range lists {
		for _, n := range list[:min(len(list), worst)] {
			if !seen[n.Topic] {
				seen[n.Topic], names = true, append(names, n.Topic)
			}
		}
	}
	for _, list := range lists {
		for _, n := range list {
			seen[n.Topic] = true
		}
	}
	o.uncounted = len(seen) - len(names)
	all, err := c.ratedWithin(ctx, names, snapshots.StoreEvery)
	for _, one := range all {
		if one.urgency() > 0 {
			o.Trouble = append(o.Trouble, one)
		}
	}
	slices.SortStableFunc(o.Trouble, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.urgency(), a.urgency()), cmp.Compare(b.overdue(), a.overdue()))
	})
	return err
}

// freshDeaths returns the topics whose last dead letter is new.
func (o *overview) freshDeaths() []notify.Notable {
	end, _ := slices.BinarySearchFunc(o.Deaths, o.Now.Add(-freshDeath), func(n notify.Notable, old time.Time) int { return old.Compare(n.Since) })
	return o.Deaths[:end]
}

const waits = 3 // the least urgency of a topic where messages wait

// urgency returns how much a topic needs somebody; zero: it does not.
func (c counted) urgency() int {
	switch sign := c.Sign(); {
	case sign == "late":
		return waits + 2
	case (c.Nobody() || c.push != nil) && c.Overdue >= snapshots.Rhythm: // it may just have come
		return waits + 1
	case sign == "paused" && c.Ready > 0:
		return waits
	case sign == "dead":
		return 2
	case sign == "paused":
		return 1
	}
	return 0
}

// isCut reports whether a list of the survey is full, so that topics may be in trouble that it does not name.
func (o *overview) isCut() bool {
	return max(len(o.Overdue), len(o.Behind), len(o.freshDeaths()), len(o.Paused)) >= snapshots.Notables
}

// IsLate reports whether a topic in trouble is so for what waits there.
func (o *overview) IsLate() bool {
	return slices.ContainsFunc(o.Trouble, func(row counted) bool { return row.urgency() >= waits })
}

// State returns what is wrong with a topic, in words.
func (c counted) State() string {
	sign, why := c.Sign(), ""
	switch {
	case c.push != nil:
		why = c.push.ofTopic()
	case c.Nobody():
		why = "nobody waits"
	default:
		return sign
	}
	if sign == "ok" {
		return why
	}
	return sign + ", " + why
}

// Class returns the class of the style for what is wrong with a topic.
func (c counted) Class() string {
	if sign := c.Sign(); sign != "ok" || c.State() == "ok" {
		return sign
	}
	return "late"
}

// Oldest returns for how long the oldest message that the viewer sees is overdue; empty: none is.
func (o *overview) Oldest() string {
	if len(o.Overdue) == 0 {
		return ""
	}
	return short(o.Now.Sub(o.Overdue[0].Since))
}

// In and Out return how many messages a second are published, and acknowledged, in the store.
func (o *overview) In() string {
	return perSecond(o.Per, func(r *snapshots.Rates) float64 { return r.Published })
}

func (o *overview) Out() string {
	return perSecond(o.Per, func(r *snapshots.Rates) float64 { return r.Acked })
}
