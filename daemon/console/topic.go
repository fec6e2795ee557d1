package console

import (
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const topicLists = 20 // messages in each list of the page of a topic

var topicPage = page{
	path: Root + "topics/{topic}", title: "Topic", nav: "topics", name: "topic", live: true, holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.topic(ctx, v) },
}

// A topicView is what the page of a topic shows.
type topicView struct {
	*visit
	counted
	topicDetail
	Now       time.Time
	Publish   bool
	Act       bool    // the viewer may pause and resume
	Sets      bool    // the viewer may change settings
	Dead      string  // address of its dead letters; empty: the viewer may not see them
	All       string  // address of all its messages
	Schedules string  // address of its schedules; empty: the viewer may not see them
	River     *plot   // nil: it is being counted
	Wrong     []wrong // what the doctor found of it
	Groups    groupList
	Branches  []counted // those that the viewer may see
}

// topic returns what the page of a topic shows.
func (c *Console) topic(ctx context.Context, v *visit) (any, error) {
	topic, err := topicOf(v)
	if err != nil {
		return nil, err
	}
	own := record.CheckTopic(topic) == nil // not one of the system
	view := &topicView{visit: v, Now: c.now(ctx), Publish: own && v.Publishes(), Act: own && v.Can("pause"), Sets: own && v.Can("changeSettings"), All: findPath("topic:" + topic)}
	if view.Publish {
		c.refill(ctx, v, topic)
	}
	if v.Can("listDead") {
		view.Dead = deadPath(topic, "")
	}
	if own && v.Can("listSchedules") {
		view.Schedules = schedulesPath(topic)
	}
	all, err := c.rated(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	view.counted = all[0]
	if view.Groups, err = c.groups(ctx, v, topic); err != nil {
		return nil, err
	}
	for _, f := range c.doctor.findings(ctx).Wrong {
		if f.Name == topic && slices.Contains(ofTopics, f.Check) {
			view.Wrong = append(view.Wrong, wrongOf(v, f))
		}
	}
	view.topicDetail, err = c.caches.details.Get(ctx, topic, cache.Keep{Age: relisted}, func(ctx context.Context) (topicDetail, error) { return c.detail(ctx, topic) })
	if err != nil || !v.Reads() {
		view.topicDetail = topicDetail{Settings: view.Settings, branches: view.branches}
	}
	if err != nil {
		return view, err
	}
	if view.Branches, err = c.rated(ctx, slices.DeleteFunc(slices.Clone(view.branches), func(branch string) bool { return !v.Sees(branch) })); err != nil {
		return view, err
	}
	pattern, err := notify.ParsePattern(topic)
	if err != nil {
		return view, err
	}
	view.River, err = c.river(ctx, v, "Messages", view.Now, []notify.Pattern{pattern}, c.seenPast(topic))
	return view, err
}

// Unknown reports whether nothing of the topic is known.
func (t *topicView) Unknown() bool {
	return t.Published == 0 && t.Sent == 0 && t.Broadcasts == 0 && t.Counts.Dead == 0 && t.Waiting == 0
}

// Push returns the push that has messages of the topic wait, if the viewer may see it; nil otherwise.
func (t *topicView) Push() *pushRow {
	if t.push == nil || !t.mayPush(t.push.Topics) {
		return nil
	}
	return t.push
}

// Of returns the topic of which this is a branch, if the viewer may see it; empty otherwise.
func (t *topicView) Of() string {
	if of, branch := record.SplitBranch(t.Topic); branch != "" && t.Sees(of) {
		return of
	}
	return ""
}

// HeldUp says whether a push has messages of the topic wait, and why; empty: none does.
func (t *topicView) HeldUp() string {
	if t.push == nil {
		return ""
	}
	return t.push.ofTopic()
}

// Link returns the address of the page.
func (t *topicView) Link() string { return t.counted.Link() }

func (t *topicView) title() string { return t.Topic }

// detail reads what is kept of a topic.
func (c *Console) detail(ctx context.Context, topic string) (d topicDetail, err error) {
	if d.Settings, d.branches, err = c.settings(ctx, topic); err != nil {
		return d, err
	}
	for _, list := range []struct {
		into *[]messageRow
		of   func(ctx context.Context) (notify.Page, error)
	}{
		{&d.InHand, func(ctx context.Context) (notify.Page, error) {
			return c.inspector.List(ctx, topic, notify.Leased, topicLists, "")
		}},
		{&d.Next, func(ctx context.Context) (notify.Page, error) {
			return c.inspector.List(ctx, topic, notify.Scheduled, topicLists, "")
		}},
		{&d.Sends, func(ctx context.Context) (notify.Page, error) {
			return c.inspector.Broadcasts(ctx, topic, topicLists, "")
		}},
	} {
		page, err := list.of(ctx)
		if err != nil {
			return d, err
		}
		*list.into = rowsOf(page.Messages)
	}
	keys, _, err := store.ListKeys(ctx, c.store, topic, store.OldestBlocked, topicLists)
	if err != nil {
		return d, err
	}
	now := c.now(ctx)
	for _, key := range keys {
		behind := calls.Behind(calls.HoldersOf(key.Seats), func(t time.Time) string { return short(max(now.Sub(t), 0)) })
		d.Keys = append(d.Keys, keyRow{key, findPath("topic:" + topic + " key:" + key.Key), brief(behind)})
	}
	return d, nil
}

// publishAct publishes a message or a broadcast, or changes settings: the form has a button named mode for each.
var publishAct = act{path: topicPage.path, name: "publish or set", form: &topicPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, err := topicOf(v)
	if err != nil {
		return "", 0, err
	}
	if v.sets() {
		return c.set(ctx, v, topic)
	}
	return c.publish(ctx, v, topic, v.r.PostForm.Get("mode") == "broadcast")
}}
