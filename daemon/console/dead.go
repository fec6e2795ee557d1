package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	letterRows  = 50                     // dead letters on a page
	letterLooks = 20                     // pages of letters that are read for one page of a reason
	lookFor     = 500 * time.Millisecond // after which a page of a reason is shown short
	reasonRows  = 500                    // reasons on the page
	mostWeighed = 10_000                 // dead letters of which all reasons are counted unasked
)

// reasonsKept is how long a count of all reasons stands: it reads every dead letter.
var reasonsKept = cache.Keep{Age: 30 * time.Second, Within: time.Minute}

var deadPage = page{
	path: Root + "dead", title: "Dead letters", nav: "dead", name: "dead", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.dead(ctx, v) },
}

var lettersPage = page{
	path: Root + "dead/letters", title: "Dead letters", nav: "dead", name: "letters", holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.letters(ctx, v) },
}

var reasonsPage = page{
	path: Root + "dead/reasons", title: "Dead letters by reason", nav: "dead", name: "reasons",
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.reasons(ctx, v) },
}

// A deadView is what the page of dead letters shows: the topics that have some.
type deadView struct {
	*visit
	Now   time.Time
	Total int64 // in all topics; negative: the viewer does not see all
	Rows  []deadRow
	Whys  bool // each row has the reason that is most frequent
	More  bool // there may be more topics with dead letters
	River *plot
}

// A deadRow is a topic with dead letters.
type deadRow struct {
	counted
	Newest time.Time
	Link   string // its letters, or its page
	Why    reasonRow
}

// Dying returns how many messages a second die.
func (c counted) Dying() string {
	return perSecond(c.Per, func(r *snapshots.Rates) float64 { return r.Died })
}

// dead returns the topics that have dead letters.
func (c *Console) dead(ctx context.Context, v *visit) (any, error) {
	view := &deadView{visit: v, Now: c.now(ctx), Total: -1}
	in, err := v.scope("")
	if err != nil {
		return nil, err
	}
	survey, err := c.snapshots.Survey(ctx)
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	if v.CoversAll() {
		view.Total = survey.Dead
	}
	view.More = len(survey.Deaths) >= snapshots.Notables
	newest := make(map[string]time.Time)
	for _, n := range survey.Deaths {
		newest[n.Topic] = n.Since
	}
	names := notableIn(in, make(map[string]bool), [][]notify.Notable{survey.Deaths})
	all, missing := c.rated(ctx, names[:min(len(names), topicRows)])
	view.More = view.More || len(names) > topicRows
	for _, one := range all {
		row := deadRow{counted: one, Newest: newest[one.Topic], Link: topicPath(one.Topic)}
		if v.Can("listDead") {
			row.Link = deadPath(one.Topic, "")
		}
		if one.Dead > 0 {
			view.Rows = append(view.Rows, row)
		}
	}
	if view.Whys = v.Can("listDead") && len(view.Rows) > 0 && survey.Dead <= mostWeighed; view.Whys {
		missing = store.Missing(missing, c.weigh(ctx, view.Rows))
	}
	if len(view.Rows) > 0 {
		topics := make([]string, len(view.Rows))
		for i, row := range view.Rows {
			topics[i] = row.Topic
		}
		var fault error
		if view.River, fault = c.deaths(ctx, v, in.key, topics); fault != nil {
			missing = store.Missing(missing, fault)
		}
		if view.River != nil && view.More {
			view.River.Note = "Of the topics that are shown. " + view.River.Note
		}
	}
	return view, store.Missing(err, missing)
}

// weigh notes of topics why most of their letters died. The error is that of the count.
func (c *Console) weigh(ctx context.Context, rows []deadRow) error {
	all, err := c.allReasons(ctx)
	for i := range rows {
		row := &rows[i]
		if first := slices.IndexFunc(all, func(r reasons.Reason) bool { return r.Topic == row.Topic }); first >= 0 {
			row.Why = reasonRow{Reason: brief(all[first].Reason), Dead: all[first].Dead, Link: deadPath(row.Topic, all[first].Reason)}
		}
	}
	return err
}

// allReasons returns all reasons of all topics, the most frequent first.
func (c *Console) allReasons(ctx context.Context) ([]reasons.Reason, error) {
	return c.caches.reasons.Get(ctx, "", reasonsKept, func(ctx context.Context) ([]reasons.Reason, error) {
		return reasons.Count(ctx, c.store, nil)
	})
}

// deaths returns when what is dead of some topics died, which is kept for all viewers of the
// same topics by a key. It is nil if nothing is known; the error may be a MissingError beside it.
func (c *Console) deaths(ctx context.Context, v *visit, key string, topics []string) (*plot, error) {
	p, span := plotOf(v, "Deaths", c.now(ctx))
	d, err := c.caches.deaths.Get(ctx, span.Name+" "+key, cache.Keep{Age: forecast.Kept}, func(ctx context.Context) (forecast.Deaths, error) {
		return forecast.DeathsOf(ctx, c.store, topics, span.Step, span.Buckets+1)
	})
	if len(d.Counts) == 0 {
		return nil, err
	}
	p.Word, p.Class, p.Earlier = "died", "dead", d.Earlier
	p.Note = "Letters that were requeued or purged since are no longer counted."
	p.Bars = span.Bars(d.From)
	for i := range p.Bars {
		p.Bars[i].Past = &d.Counts[i]
	}
	return p, err
}

// A lettersView is a page of the dead letters of a topic, the latest death first.
type lettersView struct {
	*visit
	Topic  string
	Reason string // that all share; empty: any
	Dead   int64  // letters of the topic
	Rows   []messageRow
	Looked int    // letters that were read for the page
	Next   string // address of the next page; empty: this is the last
	Now    time.Time
	River  *plot // of letters with any reason
}

// letters returns a page of the dead letters of a topic.
func (c *Console) letters(ctx context.Context, v *visit) (any, error) {
	topic := v.query("topic")
	if err := v.check("listDead", "topic", topic); err != nil {
		return nil, err
	}
	view := &lettersView{visit: v, Topic: topic, Reason: v.query("reason"), Now: c.now(ctx)}
	counts, err := c.snapshots.Count(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	view.Dead = counts[0].Dead
	if view.Dead > 0 {
		if view.River, err = c.deaths(ctx, v, "of "+topic, []string{topic}); err != nil {
			return nil, err
		}
		if view.Reason != "" {
			view.River.Note = "With any reason. " + view.River.Note
		}
	}
	cursor, began := v.query("cursor"), time.Now()
	for range letterLooks {
		var page notify.Page
		_, err := c.service.Finder.Paced(ctx, func(ctx context.Context) (err error) {
			page, err = c.inspector.LatestDead(ctx, topic, letterRows-len(view.Rows), cursor)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, row := range rowsOf(page.Messages) {
			view.Looked++
			if view.Reason == "" || reasons.Of(row.Info).Reason == view.Reason {
				view.Rows = append(view.Rows, row)
			}
		}
		if cursor = page.Cursor; cursor == "" || len(view.Rows) >= letterRows || time.Since(began) > lookFor {
			break
		}
	}
	if cursor != "" {
		view.Next = v.Link("cursor", cursor)
	}
	return view, nil
}

// TopicPath returns the address of the page of the topic.
func (l *lettersView) TopicPath() string { return topicPath(l.Topic) }

// AnyReason returns the address of all dead letters of the topic.
func (l *lettersView) AnyReason() string { return deadPath(l.Topic, "") }

// All returns the address of the page that shows how many an act on all letters is for.
func (l *lettersView) All(kind string) string {
	return actPath("topic:"+l.Topic+" state:dead", kind)
}

// A reasonsView is what the page of reasons shows.
type reasonsView struct {
	Rows  []reasonRow
	Total int64 // letters that were counted
	More  int   // reasons that are not shown
}

// A reasonRow is a reason, and its letters.
type reasonRow struct {
	Topic  string
	Reason string
	Dead   int64
	Share  string // of all that were counted
	Link   string
}

// reasons counts all dead letters by topic and reason.
func (c *Console) reasons(ctx context.Context, v *visit) (any, error) {
	if err := calls.Named("listDead").Admits(v.Client); err != nil {
		return nil, err
	}
	all, err := c.allReasons(ctx)
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	view := &reasonsView{}
	for _, r := range all {
		others := r.Topic == "*" && v.CoversAll()
		if !others && (record.CheckTopic(r.Topic) != nil || !v.Sees(r.Topic)) {
			continue
		}
		view.Total += r.Dead
		if len(view.Rows) == reasonRows {
			view.More++
			continue
		}
		row := reasonRow{Topic: r.Topic, Reason: brief(r.Reason), Dead: r.Dead}
		if !others {
			row.Link = deadPath(r.Topic, r.Reason)
		}
		view.Rows = append(view.Rows, row)
	}
	for i := range view.Rows {
		view.Rows[i].Share = fmt.Sprintf("%.1f %%", 100*float64(view.Rows[i].Dead)/float64(view.Total))
	}
	return view, err
}
