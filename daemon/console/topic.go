package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	topicLists = 20              // messages in each list of the page of a topic
	relisted   = 3 * time.Second // how long these lists stand
)

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
	Reads     bool // the viewer may see its messages
	Publish   bool
	Act       bool   // the viewer may pause and resume
	Dead      string // address of its dead letters; empty: the viewer may not see them
	All       string // address of all its messages
	Schedules string // address of its schedules; empty: the viewer may not see them
	River     *plot  // nil: it is being counted
	Form      publishForm
	Refused   *pageFault // why the form was
}

// A topicDetail is what is kept of a topic beside its counts.
type topicDetail struct {
	Settings []settingRow
	InHand   []messageRow
	Next     []messageRow // that fall due next
	Sends    []messageRow // broadcasts that fall due next
	Keys     []keyRow     // that have waited longest
}

// A keyRow is a key of which messages are blocked.
type keyRow struct {
	store.Key
	Link   string // address of its messages
	Behind string // for which they wait
}

// A settingRow is a setting of a topic.
type settingRow struct{ Name, Value, From, Doc string }

// A messageRow is a message in a list, with the beginning of its body.
type messageRow struct {
	notify.Info
	Link string
}

// About returns one short line about a message: why it died, or what is in it.
func (m messageRow) About() string {
	if m.State == notify.Dead {
		return brief(store.Headline(m.Reason))
	}
	return brief(string(m.Body))
}

// At returns the time that is told of a message: that by which lists sort it.
func (m messageRow) At() time.Time {
	switch m.State {
	case notify.Leased, notify.Done:
		return m.Until
	case notify.Dead:
		return m.Died
	}
	return m.Due
}

// messagePath returns the address of the page of a message.
func messagePath(topic, id string) string {
	return topicPath(topic) + "/messages/" + url.PathEscape(id)
}

// rowsOf returns the messages of a list.
func rowsOf(infos []notify.Info) []messageRow {
	rows := make([]messageRow, len(infos))
	for i, info := range infos {
		info.Body = slices.Clone(info.Body[:min(len(info.Body), 4*briefly)]) // the rest would be kept as long as the row
		rows[i] = messageRow{info, messagePath(info.Topic, info.ID)}
	}
	return rows
}

// briefly is how many characters of a text a table shows.
const briefly = 100

// brief returns a foreign text as one short line.
func brief(text string) string {
	line := legible(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text))
	if runes := []rune(line); len(runes) > briefly {
		return string(runes[:briefly]) + "…"
	}
	return line
}

// legible returns a foreign text in which each character that does not show, or turns the
// text around it, is written as Go would.
func legible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// topic returns what the page of a topic shows.
func (c *Console) topic(ctx context.Context, v *visit) (any, error) {
	topic, err := topicOf(v)
	if err != nil {
		return nil, err
	}
	own := record.CheckTopic(topic) == nil // not one of the system
	view := &topicView{
		visit: v, Now: c.now(ctx), Reads: v.Has(calls.MayPublish, calls.MayConsume), Publish: own && v.Has(calls.MayPublish), Act: own && v.Has(calls.MayAdmin),
		Form: formOf(v.r.PostForm), All: findPath("topic:" + topic),
	}
	if v.Has(calls.MayConsume) {
		view.Dead = deadPath(topic, "")
	}
	if own && v.Has(calls.MaySchedule) {
		view.Schedules = schedulesPath(topic)
	}
	all, err := c.snapshots.rated(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	view.counted = all[0]
	view.topicDetail, err = c.caches.details.Get(ctx, topic, cache.Keep{Age: relisted}, func(ctx context.Context) (topicDetail, error) { return c.detail(ctx, topic) })
	if err != nil || !view.Reads {
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

// Link returns the address of the page.
func (t *topicView) Link() string { return topicPath(t.Topic) }

func (t *topicView) title() string { return t.Topic }

// refuse shows why the form was refused.
func (t *topicView) refuse(f *pageFault) { t.Refused = f }

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
		behind := api.Behind(key.Seats, func(t time.Time) string { return short(max(now.Sub(t), 0)) })
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

// A publishForm is the form to publish, as it was sent.
type publishForm struct{ Body, ID, Delay, Due, ContentType, Headers string }

// formOf returns a form as it was sent.
func formOf(sent url.Values) publishForm {
	return publishForm{
		Body: strings.ReplaceAll(sent.Get("body"), "\r\n", "\n"), ID: sent.Get("id"), Delay: sent.Get("delay"), Due: sent.Get("due"),
		ContentType: sent.Get("content_type"), Headers: strings.ReplaceAll(sent.Get("headers"), "\r\n", "\n"),
	}
}

// message returns the message that a form describes. The error joins a Fault for each field
// that cannot be read.
func (f publishForm) message(topic string) (notify.Message, error) {
	m := notify.Message{Topic: topic, Body: []byte(f.Body)}
	given := map[string]string{"id": f.ID, "delay": f.Delay, "due": f.Due, "content_type": f.ContentType}
	var faults []error
	for _, field := range fields.In[notify.Message]() {
		text := strings.TrimSpace(given[field.Name])
		if text == "" {
			continue
		}
		if other := strings.TrimSpace(given[field.Without]); other != "" {
			faults = append(faults, fault.New(field.Name, "%s and %s: both are given; give one of them", field.Without, field.Name))
		}
		faults = append(faults, field.Set(reflect.ValueOf(&m).Elem(), text))
	}
	var err error
	m.Headers, err = headersIn(f.Headers)
	return m, errors.Join(append(faults, err)...)
}

// headersIn reads headers, one NAME: VALUE a line.
func headersIn(text string) (map[string]string, error) {
	headers := make(map[string]string)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, whole := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !whole || twice {
			return nil, fault.New("headers", "header %.100q: write NAME: VALUE, a line for each name", line)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// publishAct publishes a message or a broadcast.
var publishAct = act{path: topicPage.path, name: "publish", form: &topicPage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, err := topicOf(v)
	if err != nil {
		return "", 0, err
	}
	return c.publish(ctx, v, topic, v.r.PostForm.Get("mode") == "broadcast")
}}

// publish publishes what a form describes. Without an id the form's own name is the id, so
// that a form that is sent again is refused by the store, too.
func (c *Console) publish(ctx context.Context, v *visit, topic string, broadcast bool) (string, int, error) {
	if !v.Has(calls.MayPublish) || !v.Sees(topic) || record.CheckTopic(topic) != nil {
		return "", 0, api.ErrForbidden
	}
	m, err := formOf(v.r.PostForm).message(topic)
	if err != nil {
		return "", 0, err
	}
	m.Broadcast = broadcast
	m.ID = cmp.Or(m.ID, v.r.PostForm.Get("once"))
	p, err := c.pub.Publish(ctx, m)
	if errors.Is(err, notify.ErrExists) {
		err = fault.New("id", "id %s: it is in use in this topic; give another one, or none", m.ID)
	}
	if err != nil {
		return "", 0, err
	}
	c.forget(topic)
	did := "Published "
	if broadcast {
		did = "Broadcast "
	}
	return did + m.ID + " to " + topic + ", " + p.State.String() + dueText(p.Due), 1, nil
}

// dueText returns when a message is due, for the end of a sentence.
func dueText(due time.Time) string {
	if due.IsZero() {
		return ""
	}
	return ", due " + moment(due)
}
