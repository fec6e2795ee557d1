package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	troubleRows = 20               // topics on the overview
	worst       = fewTopics / 4    // topics of each list that are counted for it
	laggingRows = 20               // listeners on the overview
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
	Wrong    []wrong  // worst first; empty: nothing
	Looking  bool     // the doctor is, so that more may be wrong
	Advice   []string // checks of how things are set up, of which the doctor warns
	Office   snapshots.Office
	Per      *snapshots.Rates // of the whole store; nil: not yet known, or not for this viewer
	Trouble  []counted
	More     int  // topics in trouble that are not shown
	AtLeast  bool // there may be more than More
	Unseen   bool // topics of the viewer may be in trouble and not be among the worst of the store, which were looked at
	Missing  bool // a shard is
	Lagging  []notify.ListenerInfo
	LagAway  *pageFault         // in place of listeners that could not be read
	MoreLag  int                // listeners that are behind and are not shown
	Failing  []pushRow          // pushes whose endpoints fail
	Fullest  *snapshots.Server  // nil: not for this viewer
	Evicting []snapshots.Server // that may evict messages
	River    *plot

	uncounted int // topics in trouble beyond the worst, which are not counted
}

// Empty reports whether nothing was ever published, as far as the viewer may know.
func (o *overview) Empty() bool {
	return o.CoversAll() && !o.Missing && o.Topics == 0 && o.Published == 0 && o.Sent == 0 && o.Office.Next.IsZero()
}

// A wrong is something that an operator has to know first.
type wrong struct {
	Sign   string // a class of the style
	Text   string
	Link   string
	Remedy string // empty: the page of the link shows what can be done
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
	if o.Lagging, err = c.lagging(ctx, v, survey.Now); err != nil {
		if !store.IsPartial(err) {
			o.LagAway = c.faultFor(v.Viewer, err)
		} else {
			missing = store.Missing(missing, err)
		}
	}
	o.Failing = c.failingPushes(ctx, v)
	if v.SeesStore() {
		masters := c.masters(ctx)
		o.Fullest = fullest(masters)
		o.Evicting = slices.DeleteFunc(masters, func(s snapshots.Server) bool { return !s.Evicts })
	}
	past, topics := c.storePast, []notify.Pattern(nil)
	if !v.SeesStore() {
		past = c.somePast(v)
	}
	if !v.CoversAll() {
		topics = v.Patterns
	}
	if o.River, err = c.river(ctx, v, "The river: messages", survey.Now, topics, past); err != nil {
		missing = store.Missing(missing, err)
	}
	o.Missing = missing != nil || o.LagAway != nil
	o.judge(o.seen(c.doctor.findings(ctx)))
	o.AtLeast = o.least(o.isCut()) != ""
	cut := max(0, len(o.Trouble)-troubleRows)
	o.Trouble = o.Trouble[:len(o.Trouble)-cut]
	o.More = cut + o.uncounted
	o.MoreLag = max(0, len(o.Lagging)-laggingRows)
	o.Lagging = o.Lagging[:len(o.Lagging)-o.MoreLag]
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
	all, err := c.rated(ctx, names)
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

// masters returns the servers that hold messages, and are there.
func (c *Console) masters(ctx context.Context) []snapshots.Server {
	all, _ := c.snapshots.Servers(ctx) // the fault of a server that is away is told by what it holds
	return slices.DeleteFunc(slices.Clone(all), func(s snapshots.Server) bool { return s.Away != nil || s.Replica })
}

// fullest returns the server that has the least memory left; nil if none is known.
func fullest(all []snapshots.Server) *snapshots.Server {
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
	all, err := c.rated(ctx, names)
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

// urgency returns how much a topic needs somebody; zero: it does not.
func (c counted) urgency() int {
	switch sign := c.Sign(); {
	case sign == "late":
		return 5
	case (c.Nobody() || c.push != nil) && c.Overdue >= snapshots.Rhythm: // it may just have come
		return 4
	case sign == "paused" && c.Ready > 0:
		return 3
	case sign == "dead":
		return 2
	case sign == "paused":
		return 1
	}
	return 0
}

// judge finds what is wrong, with what the doctor found.
func (o *overview) judge(found findings) {
	say := func(sign, link, format string, args ...any) {
		o.Wrong = append(o.Wrong, wrong{Sign: sign, Text: fmt.Sprintf(format, args...), Link: link})
	}
	switch vacant := len(o.Office.Vacant); {
	case vacant > 0 && vacant == len(o.Office.Terms):
		say("late", "carriers", "No carrier is elected: nothing falls due")
	case vacant > 0:
		say("late", "carriers", "No carrier is elected for %s: nothing falls due there", o.Office.VacantText())
	}
	o.quote(found, doctor.Fail)
	if late := o.lateSince(o.Behind, snapshots.Rhythm); len(late) > 0 {
		say("late", "carriers", "The carrier is behind: %s%s due since %s not ready yet", o.least(len(late) >= snapshots.Notables), plural(len(late), "topic has messages", "topics have messages"), short(o.Now.Sub(late[0].Since)))
	}
	if late := o.lateSince(o.Overdue, lateAfter); len(late) > 0 {
		say("late", "topics?sort=overdue", "%s%s late, the oldest by %s", o.least(len(late) >= snapshots.Notables), plural(len(late), "topic is", "topics are"), short(o.Now.Sub(late[0].Since)))
	}
	if s := o.Fullest; s != nil && s.Memory.IsFull() {
		say("late", "carriers", "Publishes are refused: Redis %s is full", s.Name)
	} else if s != nil && s.IsNearlyFull() {
		say("late", "carriers", "Redis %s uses %d %% of the memory that messages may use", s.Name, s.Share())
	}
	for _, s := range o.Evicting {
		say("late", "carriers", "Redis %s may evict messages: set maxmemory-policy noeviction", s.Name)
	}
	if alone := o.alone(); len(alone) == 1 {
		say("late", alone[0].Link(), "Nobody waits for messages of %s, which has %s ready", alone[0].Topic, grouped(alone[0].Ready))
	} else if len(alone) > 1 {
		say("late", alone[0].Link(), "Nobody waits for messages of %s%d topics, such as %s", o.least(o.uncounted > 0), len(alone), alone[0].Topic)
	}
	if held := o.held(); len(held) == 1 {
		say("paused", held[0].Link(), "%s is paused%s, and %s ready", held[0].Topic, held[0].Ends(), plural(int(held[0].Ready), "message is", "messages are"))
	} else if len(held) > 1 {
		say("paused", held[0].Link(), "%s%d topics that have messages ready are paused, such as %s", o.least(len(o.Paused) > worst), len(held), held[0].Topic)
	}
	if n := len(o.Lagging); n == 1 {
		say("late", "broadcasts", "Listener %s is behind", o.Lagging[0].Name)
	} else if n > 1 {
		say("late", "broadcasts", "%d listeners are behind, such as %s", n, o.Lagging[0].Name)
	}
	if n := len(o.Failing); n == 1 {
		p := o.Failing[0]
		say("late", p.Link(), "The endpoint of the push %s %s: its messages wait", p.Name, p.Standing(o.Now))
	} else if n > 1 {
		say("late", "pushes", "The endpoints of %d pushes fail, such as that of %s: their messages wait", n, o.Failing[0].Name)
	}
	if deaths := o.freshDeaths(); len(deaths) > 0 {
		say("dead", "dead", "%s%s dead letters of the last %s", o.least(len(deaths) >= snapshots.Notables), plural(len(deaths), "topic has", "topics have"), short(freshDeath))
	}
	o.quote(found, doctor.Warn)
}

// isCut reports whether a list of the survey is full, so that topics may be in trouble that it does not name.
func (o *overview) isCut() bool {
	return max(len(o.Overdue), len(o.Behind), len(o.freshDeaths()), len(o.Paused)) >= snapshots.Notables
}

// least returns what stands before a number of topics that may be more.
func (o *overview) least(cut bool) string {
	if cut || o.Unseen {
		return "at least "
	}
	return ""
}

// held returns the topics that have messages ready and are paused.
func (o *overview) held() []counted {
	return slices.DeleteFunc(slices.Clone(o.Trouble), func(row counted) bool { return !row.Paused || row.Ready == 0 })
}

// alone returns the topics whose messages nobody waits for.
func (o *overview) alone() []counted {
	return slices.DeleteFunc(slices.Clone(o.Trouble), func(row counted) bool { return !row.Nobody() || row.Overdue < snapshots.Rhythm })
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

// lateSince returns the topics of a list that stand out for longer than a time.
func (o *overview) lateSince(list []notify.Notable, after time.Duration) []notify.Notable {
	end := slices.IndexFunc(list, func(n notify.Notable) bool { return o.Now.Sub(n.Since) < after })
	if end < 0 {
		end = len(list)
	}
	return list[:end]
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
