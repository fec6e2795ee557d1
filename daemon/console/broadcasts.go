package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify/receivers"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	logRows      = 50   // logs on the page
	listenerRows = 200  // named listeners on the page
	mostComing   = 1000 // broadcasts of a shard whose topics are shown
)

var broadcastsPage = page{
	path: Root + "broadcasts", title: "Broadcasts", nav: "broadcasts", name: "broadcasts", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.broadcasts(ctx, v) },
}

// A broadcastsView is what the page of broadcasts shows.
type broadcastsView struct {
	*visit
	Now        time.Time
	Waiting    int64    // broadcasts of all topics that wait for their due time; negative: the viewer does not see all
	Behind     int      // listeners that missed broadcasts, or are about to
	Coming     []logRow // topics with broadcasts to come: the next one first
	MoreComing bool
	Logs       []logRow
	MoreLogs   bool
	Listeners  []listenerRow
	MoreNames  bool
	Away       *pageFault // in place of listeners that could not be read
}

// A logRow is the log of a topic, or what it will get.
type logRow struct {
	counted
	At time.Time // when its newest broadcast was sent, or the next one is due
}

// Sending returns how many broadcasts a second are receivers.
func (c counted) Sending() string {
	return perSecond(c.Per, func(r *snapshots.Rates) float64 { return r.Sent })
}

// broadcasts returns what the page of broadcasts shows.
func (c *Console) broadcasts(ctx context.Context, v *visit) (any, error) {
	view := &broadcastsView{visit: v, Now: c.now(ctx), Waiting: -1}
	var faults []error
	for _, read := range []func(context.Context, *Console) error{view.readLogs, view.readComing, view.readListeners, view.readWaiting} {
		err := read(ctx, c)
		if err != nil && !store.IsPartial(err) {
			return nil, err
		}
		faults = append(faults, err)
	}
	return view, store.Missing(faults...)
}

// readWaiting fills in how many broadcasts wait.
func (b *broadcastsView) readWaiting(ctx context.Context, c *Console) error {
	if !b.CoversAll() {
		return nil
	}
	survey, err := c.snapshots.Survey(ctx)
	b.Waiting = survey.Broadcasts
	return err
}

// readLogs fills in the logs, that of the newest broadcast first.
func (b *broadcastsView) readLogs(ctx context.Context, c *Console) error {
	ends, err := c.caches.logs.Get(ctx, relogged, c.logEnds)
	if err != nil && !store.IsPartial(err) {
		return err
	}
	var topics []store.Notable
	for _, end := range ends {
		topics = append(topics, store.Notable{Topic: end.Topic, Since: end.Last.Time()})
	}
	var missing error
	b.Logs, b.MoreLogs, missing = b.rows(ctx, c, topics)
	return store.Missing(err, missing)
}

// rows counts the first of some topics that the viewer sees, and reports whether there are more.
func (b *broadcastsView) rows(ctx context.Context, c *Console, topics []store.Notable) (rows []logRow, more bool, missing error) {
	at := make(map[string]time.Time)
	var names []string
	for _, one := range topics {
		if record.CheckAnyTopic(one.Topic) != nil || !b.Sees(one.Topic) {
			continue
		}
		if more = len(names) == logRows; more {
			break
		}
		names = append(names, one.Topic)
		at[one.Topic] = one.Since
	}
	all, missing := c.rated(ctx, names)
	for _, one := range all {
		rows = append(rows, logRow{one, at[one.Topic]})
	}
	return rows, more, missing
}

// readComing fills in the topics with broadcasts to come.
func (b *broadcastsView) readComing(ctx context.Context, c *Console) error {
	some, err := c.caches.announced.Get(ctx, relogged, c.announced)
	if err != nil && !store.IsPartial(err) {
		return err
	}
	var missing error
	b.Coming, b.MoreComing, missing = b.rows(ctx, c, some.topics)
	b.MoreComing = b.MoreComing || some.more
	return store.Missing(err, missing)
}

// announced returns the topics of the broadcasts of all shards that are due next.
func (c *Console) announced(ctx context.Context) (some announced, err error) {
	parts, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) (one announced, err error) {
		one.topics, one.more, err = shard.Announced(ctx, mostComing)
		return one, err
	})
	for _, one := range parts {
		some.topics = append(some.topics, one.topics...)
		some.more = some.more || one.more
	}
	slices.SortStableFunc(some.topics, func(a, b store.Notable) int { return a.Since.Compare(b.Since) })
	return some, err
}

// logEnds returns the ends of the logs of all shards, the newest first.
func (c *Console) logEnds(ctx context.Context) ([]store.LogEnd, error) {
	parts, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) ([]store.LogEnd, error) { return shard.LogEnds(ctx) })
	all := slices.Concat(parts...)
	slices.SortFunc(all, func(a, b store.LogEnd) int {
		if a.Last != b.Last {
			return b.Last.Time().Compare(a.Last.Time())
		}
		return strings.Compare(a.Topic, b.Topic)
	})
	return all, err
}

// readListeners fills in the named listeners whose patterns the viewer sees, those in trouble
// first.
func (b *broadcastsView) readListeners(ctx context.Context, c *Console) error {
	all, err := c.listeners(ctx)
	if err != nil && !store.IsPartial(err) {
		b.Away = c.faultFor(b.Viewer, err)
		return nil
	}
	for _, one := range all {
		if !b.SeesPattern(one.Pattern) {
			continue
		}
		if !b.Has(calls.MayMetrics) {
			one.By, one.HeldBy = nil, nil
		}
		if one.HasGap || one.AtRisk {
			b.Behind++
		}
		b.Listeners = append(b.Listeners, listenerRow{one})
	}
	worst := map[string]int{"dead": 0, "late": 1, "quiet": 2, "ok": 3}
	slices.SortStableFunc(b.Listeners, func(x, y listenerRow) int { return worst[x.Class()] - worst[y.Class()] })
	if b.MoreNames = len(b.Listeners) > listenerRows; b.MoreNames {
		b.Listeners = b.Listeners[:listenerRows]
	}
	return err
}

// broadcastAct broadcasts a message to a topic of the form.
var broadcastAct = act{path: Root + "broadcasts", name: "broadcast", form: &broadcastsPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic := v.typed("topic")
	defer c.caches.announced.Forget()
	return c.publish(ctx, v, topic, true)
}}

// receiversPage shows how far the named listeners are with a broadcast.
var receiversPage = page{
	path: Root + "broadcasts/of", title: "Who has a broadcast", nav: "broadcasts", name: "receivers",
	data: func(ctx context.Context, c *Console, v *visit) (any, error) {
		view := &receiversView{Topic: strings.TrimSpace(v.query("topic")), ID: strings.TrimSpace(v.query("id")), Now: c.now(ctx)}
		if view.Topic+view.ID == "" {
			return view, nil
		}
		b, err := ask[receivers.Report](ctx, c, v, "receivers", "topic", view.Topic, "id", view.ID)
		if err != nil {
			return nil, err
		}
		view.Found = &b
		return view, nil
	},
}

// A receiversView is a broadcast that was asked for.
type receiversView struct {
	Topic, ID string
	Now       time.Time
	Found     *receivers.Report // nil: none was asked for
}
