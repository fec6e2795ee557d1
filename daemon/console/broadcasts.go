package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	logRows      = 50  // logs on the page
	listenerRows = 200 // named listeners on the page
)

// relogged is how long the lists of logs and of listeners stand.
var relogged = keep{age: 5 * time.Second}

var broadcastsPage = page{
	path: Root + "broadcasts", title: "Broadcasts", nav: "broadcasts", name: "broadcasts", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.broadcasts(ctx, v) },
}

// A broadcastsView is what the page of broadcasts shows.
type broadcastsView struct {
	*visit
	Now       time.Time
	Waiting   int64 // broadcasts of all topics that wait for their due time; negative: the viewer does not see all
	Behind    int   // listeners that missed broadcasts, or are about to
	Logs      []logRow
	MoreLogs  bool
	Listeners []listenerRow
	MoreNames bool
	Publish   bool
	Topic     string // of the form, as it was sent
	Form      publishForm
	Refused   *fault
}

// A logRow is the log of a topic.
type logRow struct {
	counted
	Last time.Time // when its newest broadcast was sent
	Link string
}

// Sending returns how many broadcasts a second are sent.
func (c counted) Sending() string { return perSecond(c.Per, func(r *rates) float64 { return r.Sent }) }

// A listenerRow is a named listener.
type listenerRow struct {
	notify.ListenerInfo
	Act bool // the viewer may remove the name
}

// Sign returns the worst that is to be said of a listener, and Class its class of the style.
func (l listenerRow) Sign() string {
	switch {
	case l.Missed:
		return "missed some"
	case l.AtRisk:
		return "at risk"
	case l.ListenerInfo.Behind > 0 && !l.Active:
		return "behind, and away"
	case l.ListenerInfo.Behind > 0:
		return "behind"
	case !l.Active:
		return "away"
	}
	return "ok"
}

func (l listenerRow) Class() string {
	switch {
	case l.Missed:
		return "dead"
	case l.AtRisk, l.ListenerInfo.Behind > 0:
		return "late"
	case !l.Active:
		return "quiet"
	}
	return "ok"
}

// broadcasts returns what the page of broadcasts shows.
func (c *Console) broadcasts(ctx context.Context, v *visit) (any, error) {
	view := &broadcastsView{visit: v, Now: time.Now(), Waiting: -1, Publish: v.May(Publish), Topic: v.r.PostForm.Get("topic"), Form: formOf(v.r.PostForm)}
	var faults []error
	for _, read := range []func(context.Context, *Console) error{view.readLogs, view.readListeners, view.readWaiting} {
		err := read(ctx, c)
		if err != nil && !store.IsPartial(err) {
			return nil, err
		}
		faults = append(faults, err)
	}
	return view, store.Missing(faults...)
}

// refuse shows why the form was refused.
func (b *broadcastsView) refuse(f *fault) { b.Refused = f }

// readWaiting fills in how many broadcasts wait.
func (b *broadcastsView) readWaiting(ctx context.Context, c *Console) error {
	if !b.SeesAll() {
		return nil
	}
	survey, err := c.snapshots.survey(ctx)
	b.Waiting = survey.Broadcasts
	return err
}

// readLogs fills in the logs, that of the newest broadcast first.
func (b *broadcastsView) readLogs(ctx context.Context, c *Console) error {
	ends, err := c.shelves.logs.get(ctx, relogged, c.logEnds)
	if err != nil && !store.IsPartial(err) {
		return err
	}
	last := make(map[string]time.Time)
	var names []string
	for _, end := range ends {
		if store.CheckAnyTopic(end.Topic) != nil || !b.Sees(end.Topic) {
			continue
		}
		if b.MoreLogs = len(names) == logRows; b.MoreLogs {
			break
		}
		names = append(names, end.Topic)
		last[end.Topic] = end.Last.Time()
	}
	all, missing := c.snapshots.rated(ctx, names)
	for _, one := range all {
		b.Logs = append(b.Logs, logRow{one, last[one.Topic], topicPath(one.Topic)})
	}
	return store.Missing(err, missing)
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
	all, err := c.shelves.listeners.get(ctx, relogged, c.inspector.Listeners)
	if err != nil && !store.IsPartial(err) {
		return err
	}
	for _, one := range all {
		row := listenerRow{one, b.May(Admin)}
		if !b.seesPattern(one.Pattern) {
			continue
		}
		if one.Missed || one.AtRisk {
			b.Behind++
		}
		b.Listeners = append(b.Listeners, row)
	}
	worst := map[string]int{"dead": 0, "late": 1, "quiet": 2, "ok": 3}
	slices.SortStableFunc(b.Listeners, func(x, y listenerRow) int { return worst[x.Class()] - worst[y.Class()] })
	if b.MoreNames = len(b.Listeners) > listenerRows; b.MoreNames {
		b.Listeners = b.Listeners[:listenerRows]
	}
	return err
}

// seesPattern reports whether all topics of a pattern are granted.
func (v *Viewer) seesPattern(text string) bool {
	p, err := notify.ParsePattern(text)
	return err == nil && v.covers(p)
}

// broadcastAct broadcasts a message to a topic of the form.
var broadcastAct = act{path: Root + "broadcasts", name: "broadcast", form: &broadcastsPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic := strings.TrimSpace(v.r.PostForm.Get("topic"))
	if err := store.CheckTopic(topic); err != nil {
		return "", 0, err
	}
	return c.publish(ctx, v, topic, true)
}}

// forgetAct removes a named listener: the form has a button remove for each.
var forgetAct = act{path: Root + "acts/listeners", name: "remove a listener", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	name := v.r.PostForm.Get("remove")
	if err := store.CheckListener(name); err != nil {
		return "", 0, err
	}
	all, err := c.inspector.Listeners(ctx)
	if err != nil && !store.IsPartial(err) {
		return "", 0, err
	}
	at := slices.IndexFunc(all, func(l notify.ListenerInfo) bool { return l.Name == name })
	if !v.May(Admin) || at >= 0 && !v.seesPattern(all[at].Pattern) || at < 0 && !v.SeesAll() {
		return "", 0, errForbidden
	}
	err = c.inspector.RemoveListener(ctx, name)
	c.shelves.listeners.forget()
	if errors.Is(err, notify.ErrNoListener) {
		err = &fault{Status: 409, Title: "There is no such listener", Detail: name + " was removed meanwhile. Nothing was done."}
	}
	return "Removed the listener " + name, 1, err
}}
