package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

var messagePage = page{
	path: Root + "topics/{topic}/messages/{id}", title: "Message", nav: "topics", name: "message", live: true, holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.message(ctx, v) },
}

// A messageView is what the page of a message shows.
type messageView struct {
	*visit
	Topic, ID string
	*notify.Info
	Now    time.Time
	Life   []event
	Asked  []named
	Body   shownBody
	Result shownBody
	Next   shownBody // of what follows it
}

// An event is something in the life of a message.
type event struct {
	At     time.Time
	What   string
	Class  string // of the style; empty: as other text
	By     string
	Took   string
	Reason string
}

// messageOf returns the names in the address of a message, which the viewer must be allowed
// to read.
func messageOf(v *visit) (topic, id string, err error) {
	if topic, err = topicOf(v); err != nil {
		return "", "", err
	}
	id = v.r.PathValue("id")
	return topic, id, cmp.Or(calls.Inspect.Admits(v.Client), record.CheckTopic(topic), record.CheckID(id))
}

// message returns what the page of a message shows.
func (c *Console) message(ctx context.Context, v *visit) (any, error) {
	topic, id, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	view := &messageView{visit: v, Topic: topic, ID: id, Now: c.now(ctx)}
	info, err := c.caches.messages.Get(ctx, record.Member(topic, id), cache.Keep{Age: snapshots.Rhythm}, func(ctx context.Context) (notify.Info, error) {
		return c.inspector.Inspect(ctx, topic, id)
	})
	if errors.Is(err, notify.ErrNotFound) {
		return view, &pageFault{
			Status: http.StatusNotFound, Title: fmt.Sprintf("There is no message %s in the topic %s", id, topic),
			Detail: "It was acknowledged, cancelled, purged or dropped since, or never published: what has ended is not kept. The archive may have it, if the daemon has one: bellhop archive show " + topic + " " + id,
		}
	}
	if err != nil {
		return nil, err
	}
	if held := len(info.Body) + len(info.Result); held > mostKept || info.Next != nil && held+len(info.Next.Body) > mostKept {
		c.caches.messages.Forget(record.Member(topic, id))
	}
	view.show(info)
	return view, nil
}

// show fills in what the page shows of a message.
func (m *messageView) show(info notify.Info) {
	m.Life = lifeOf(info)
	m.Asked = askedOf(info.Record)
	as := m.query("as")
	m.Body = bodyOf(info.Body, as)
	m.Result = bodyOf(info.Result, as)
	if info.Next != nil {
		m.Next = bodyOf(info.Next.Body, as)
		next := *info.Next
		next.Body, info.Next = nil, &next
	}
	info.Body, info.Result = nil, nil // their memory is free when the page is read
	m.Info = &info
}

// Path returns the address of the page.
func (m *messageView) Path() string { return messagePath(m.Topic, m.ID) }

// TopicPath returns the address of the page of the topic.
func (m *messageView) TopicPath() string { return topicPath(m.Topic) }

// Forms returns the forms in which the body can be shown.
func (m *messageView) Forms() (all []choice) {
	shown := m.Body.As
	if m.Info.State == notify.Done {
		shown = m.Result.As
	}
	for _, name := range []string{"text", "JSON", "hex"} {
		as := strings.ToLower(name)
		all = append(all, choice{name, m.Path() + "?as=" + as, as == shown})
	}
	return all
}

func (m *messageView) title() string { return m.ID + " of " + m.Topic }

// Waits reports whether the message is scheduled, ready or blocked.
func (m *messageView) Waits() bool {
	return m.Info != nil && (m.State == notify.Scheduled || m.State == notify.Ready || m.State == notify.Blocked)
}

// Cancels reports whether the message can be cancelled, or its id be freed.
func (m *messageView) Cancels() bool { return m.Waits() || m.Info != nil && m.State == notify.Done }

// Stops reports whether the work on the message can be stopped.
func (m *messageView) Stops() bool {
	return m.Info != nil && m.State == notify.Leased && m.Info.Stop.IsZero()
}

// Dead reports whether the message is a dead letter.
func (m *messageView) Dead() bool { return m.Info != nil && m.State == notify.Dead }

// Unread returns why the record cannot be read; empty: it can.
func (m *messageView) Unread() string {
	if m.Info == nil || m.Info.Fault == nil {
		return ""
	}
	return legible(m.Info.Fault.Error())
}

// Headline returns the state of a message, and since when or until when it has that.
func (m *messageView) Headline() string {
	switch m.State {
	case notify.Scheduled:
		return "Scheduled, " + waitsFor(m.Now, m.Info)
	case notify.Ready:
		return "Ready, due for " + short(max(m.Now.Sub(m.Info.Due), 0))
	case notify.Blocked:
		return "Blocked by " + brief(strings.Join(m.Info.Behind, ", ")) + ", due for " + short(max(m.Now.Sub(m.Info.Due), 0))
	case notify.Leased:
		return "Leased to " + orUnknown(m.By) + ", the lease " + ends(m.Now, m.Until)
	case notify.Dead:
		return "Dead: " + brief(store.Headline(m.Reason))
	case notify.Done:
		return "Done, its id is free in " + short(m.Until.Sub(m.Now))
	}
	return m.State.String()
}

// ends returns when something ends, or ended.
func ends(now, at time.Time) string {
	if left := at.Sub(now); left > 0 {
		return "ends in " + short(left)
	}
	return "ended " + short(now.Sub(at)) + " ago"
}

// Class returns the class of the style of the headline.
func (m *messageView) Class() string {
	switch {
	case m.State == notify.Dead:
		return "dead"
	case m.State == notify.Ready && m.Now.Sub(m.Info.Due) >= lateAfter:
		return "late"
	}
	return ""
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown worker"
	}
	return brief(name)
}

// lifeOf returns the events in the life of a message, in their order.
func lifeOf(i notify.Info) []event {
	var all []event
	add := func(e event) {
		if !e.At.IsZero() {
			e.By, e.Reason = brief(e.By), legible(e.Reason)
			all = append(all, e)
		}
	}
	add(event{At: i.Published, What: "Published"})
	before := max(len(i.History)-i.Attempts, 0) // attempts before it was dead and requeued
	switch {
	case before > 0:
		add(event{At: i.FirstDue, What: "Requeued"})
	case !i.FirstDue.Equal(i.Due):
		add(event{At: i.FirstDue, What: "First due"})
	}
	for n, a := range i.History {
		took, what := "", "Attempt failed, before it was requeued"
		if a.Took >= 0 {
			took = short(a.Took)
		}
		if n >= before {
			what = fmt.Sprintf("Attempt %d failed", i.Attempts-len(i.History)+n+1)
		}
		add(event{At: a.Ended, What: what, Class: "late", By: a.By, Took: took, Reason: a.Reason})
	}
	switch i.State {
	case notify.Scheduled:
		add(event{At: i.Due, What: "Due"})
	case notify.Ready:
		add(event{At: i.Due, What: "Ready"})
	case notify.Blocked:
		add(event{At: i.Due, What: "Blocked"})
	case notify.Leased:
		add(event{At: i.Since, What: "Claimed", By: i.By})
		add(event{At: i.Until, What: "Lease ends"})
	case notify.Dead:
		add(event{At: i.Died, What: "Died", Class: "dead", Reason: i.Reason})
	case notify.Done:
		add(event{At: i.Since, What: "Claimed", By: i.By})
		add(event{At: i.Ended, What: "Acknowledged", Class: "ok", By: i.By})
		add(event{At: i.Until, What: "Id is free"})
	}
	add(event{At: i.Expires, What: "Expires"})
	if i.Next != nil {
		add(event{At: i.Next.FirstDue, What: "Due: the message that follows it"})
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	return all
}

// askedOf returns what the publisher of a message asked for.
func askedOf(r notify.Record) (all []named) {
	if r.Broadcast {
		all = append(all, named{"mode", r.Mode()})
	}
	for _, one := range asked.Of(r).Named() {
		all = append(all, named{legible(one.Name), legible(one.Text)})
	}
	return all
}

// messageAct cancels, reschedules, requeues or purges a message: the form has a button act.
var messageAct = act{path: messagePage.path, name: "act on a message", form: &messagePage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, id, err := messageOf(v)
	if err != nil {
		return "", 0, err
	}
	name, do, err := changeOf(v)
	if err == nil {
		err = do.check(v, topic, id)
	}
	if err == nil && name == "stop" {
		err = v.sure("Stop the work on %s, and cancel it?", id)
	}
	if err != nil {
		return "", 0, err
	}
	did, err := do.do(ctx, c, v, topic, id)
	c.forget(topic)
	c.caches.messages.Forget(record.Member(topic, id))
	if do.ends {
		v.instead = topicPath(topic)
	}
	return did, oneIf(err), changed(err)
}}
