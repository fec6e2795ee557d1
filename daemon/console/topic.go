package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
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
	Dead      string  // address of its dead letters; empty: the viewer may not see them
	All       string  // address of all its messages
	Schedules string  // address of its schedules; empty: the viewer may not see them
	River     *plot   // nil: it is being counted
	Wrong     []wrong // what the doctor found of it
	Groups    groupList
}

// topic returns what the page of a topic shows.
func (c *Console) topic(ctx context.Context, v *visit) (any, error) {
	topic, err := topicOf(v)
	if err != nil {
		return nil, err
	}
	own := record.CheckTopic(topic) == nil // not one of the system
	view := &topicView{visit: v, Now: c.now(ctx), Publish: own && v.Publishes(), Act: own && v.Can("pause"), All: findPath("topic:" + topic)}
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
		view.topicDetail = topicDetail{Settings: view.Settings}
	}
	if err != nil {
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
	if d.Settings, err = c.settings(ctx, topic); err != nil {
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

// settings returns the settings of a topic, and where each comes from.
func (c *Console) settings(ctx context.Context, topic string) ([]settingRow, error) {
	if record.CheckTopic(topic) != nil {
		return nil, nil
	}
	common, err := c.inspector.Settings(ctx, notify.AllTopics)
	if err != nil && !errors.Is(err, store.ErrSettings) {
		return nil, err
	}
	own, err := c.inspector.Settings(ctx, topic)
	if err != nil {
		return nil, err
	}
	var rows []settingRow
	for _, f := range fields.In[notify.SettingsChange]() {
		from := "built in"
		switch {
		case slices.Contains(own.Own, f.Name):
			from = "this topic"
		case slices.Contains(common.Own, f.Name):
			from = "all topics"
		}
		rows = append(rows, settingRow{f.Name, api.Setting(f, own.Settings), from, f.Doc})
	}
	return rows, nil
}

// publishAct publishes a message or a broadcast.
var publishAct = act{path: topicPage.path, name: "publish", form: &topicPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, err := topicOf(v)
	if err != nil {
		return "", 0, err
	}
	return c.publish(ctx, v, topic, v.r.PostForm.Get("mode") == "broadcast")
}}
