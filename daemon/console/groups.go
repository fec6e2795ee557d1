package console

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

var groupPage = page{
	path: Root + "topics/{topic}/groups/{name}", title: "Group", nav: "topics", name: "group", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.group(ctx, v) },
}

// A groupList is a page of the groups of a topic.
type groupList struct {
	Rows        []groupRow
	First, Next string // addresses of other pages; empty: this is that
}

// A groupRow is a group of a topic.
type groupRow struct {
	calls.Group
	Topic string
	visit *visit
}

// A groupView is what the page of a group shows.
type groupView struct {
	*visit
	groupRow
	Now    time.Time
	Behind []calls.GroupMember // some of those that are left
	All    string              // address of its messages; empty: the viewer may not read them
}

// groups returns a page of the groups of a topic; none of a branch, and where the viewer may not see them. They are no part of a stream, in which rows would move.
func (c *Console) groups(ctx context.Context, v *visit, topic string) (list groupList, err error) {
	_, branch := record.SplitBranch(topic)
	if branch != "" || v.check("listGroups", "topic", topic) != nil || accepts(v.r, "text/event-stream") {
		return list, nil
	}
	cursor := v.query("groups")
	all, err := ask[calls.Groups](ctx, c, v, "listGroups", "topic", topic, "limit", fmt.Sprint(topicLists), "cursor", cursor)
	for _, one := range all.Groups {
		list.Rows = append(list.Rows, groupRow{one, topic, v})
	}
	if cursor != "" {
		list.First = v.Link("groups", "")
	}
	if all.Cursor != "" {
		list.Next = v.Link("groups", all.Cursor)
	}
	return list, err
}

// group returns what the page of a group shows.
func (c *Console) group(ctx context.Context, v *visit) (any, error) {
	topic, err := topicOf(v)
	if err != nil {
		return nil, err
	}
	g, err := ask[calls.WaitingGroup](ctx, c, v, "getGroup", "topic", topic, "name", v.r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	view := &groupView{visit: v, groupRow: groupRow{g.Group, topic, v}, Now: c.now(ctx), Behind: g.Behind}
	if v.Reads() {
		view.All = findPath("topic:" + topic + " group:" + g.Name)
	}
	return view, nil
}

// Link returns the address of the page.
func (g *groupView) Link() string { return g.groupRow.Link() }

func (g *groupView) title() string { return g.Name + " of " + g.Topic }

// Headline says what the group waits for, and what for it.
func (g *groupView) Headline() string {
	left := "Waits for " + grouped(g.Left)
	switch {
	case g.State == store.GroupDone:
		return "Complete: " + g.Callback + " came"
	case g.State == store.GroupRestoring:
		return "Being restored: nothing that waits for it comes before an import reaches its line"
	case g.State == store.GroupHeld:
		return left + ", all dead; then " + g.Callback + " comes"
	case g.Callback == "":
		return left + "; no message waits for it"
	}
	return left + "; then " + g.Callback + " comes"
}

// MessageLink returns the address of a message of the group; empty: the viewer may not read it.
func (g *groupView) MessageLink(m calls.GroupMember) string {
	if !g.Reads() || g.AllowTopic(m.Topic) != nil {
		return ""
	}
	return messagePath(m.Topic, m.ID)
}

// Why returns why a message is dead; empty: it is not.
func (g *groupView) Why(m calls.GroupMember) string { return brief(store.Headline(m.Reason)) }

// TopicPath returns the address of the page of the topic.
func (g *groupView) TopicPath() string { return topicPath(g.Topic) }

// Link returns the address of the page of the group.
func (g groupRow) Link() string { return groupPath(g.Topic, g.Name) }

// Since returns since when the group is complete, or was opened.
func (g groupRow) Since() (t time.Time) {
	if g.Complete != nil {
		t = *g.Complete
	} else if g.Opened != nil {
		t = *g.Opened
	}
	return t
}

// CallbackLink returns the address of what waits for the group, or did; empty: nothing does, or the viewer may not read that.
func (g groupRow) CallbackLink() string {
	topic, id, err := record.SplitMember(g.Callback)
	if err != nil || g.State == store.GroupDone || !g.visit.Reads() || g.visit.AllowTopic(topic) != nil {
		return ""
	}
	return messagePath(topic, id)
}

// Group returns the address of the group in which the message is; empty: in none, or the viewer may not see that.
func (m *messageView) Group() string {
	topic, _ := record.SplitBranch(m.Topic)
	return m.groupLink(topic, m.Info.Group)
}

// AfterGroup returns the address of the group for which the message waits, or waited.
func (m *messageView) AfterGroup() string {
	topic, name, err := record.SplitGroup(m.Info.AfterGroup)
	if err != nil {
		return ""
	}
	return m.groupLink(topic, name)
}

func (m *messageView) groupLink(topic, name string) string {
	if name == "" || m.check("getGroup", "topic", topic, "name", name) != nil {
		return ""
	}
	return groupPath(topic, name)
}

// waitsFor says for what a scheduled message waits: a time, a group, or the earlier of both.
func waitsFor(now time.Time, i *notify.Info) string {
	if i.Left == nil {
		return "due " + soon(now, i.Due)
	}
	group := "after " + i.AfterGroup + ", of which " + plural(int(*i.Left), "is left", "are left")
	if i.Due.IsZero() {
		return group
	}
	return "due " + soon(now, i.Due) + ", or " + group
}

// groupAct forgets a group, and cancels what waits for it.
var groupAct = act{path: groupPage.path, name: "forget a group", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, err := topicOf(v)
	if err != nil {
		return "", 0, err
	}
	name := v.r.PathValue("name")
	if err := v.check("forgetGroup", "topic", topic, "name", name); err != nil {
		return "", 0, err
	}
	if err := v.sure("Forget the group %s, and cancel what waits for it?", name); err != nil {
		return "", 0, err
	}
	gone, err := ask[calls.ForgottenGroup](ctx, c, v, "forgetGroup", "topic", topic, "name", name)
	did := fmt.Sprintf("Forgot the group %s: %s left it", name, plural(int(gone.Left), "message", "messages"))
	if gone.Cancelled != "" {
		did += ", and " + gone.Cancelled + " is cancelled"
		of, _, _ := record.SplitMember(gone.Cancelled)
		c.forget(of)
		c.caches.messages.Forget(gone.Cancelled)
	}
	c.forget(topic)
	c.doctor.forget()
	v.instead = topicPath(topic)
	return did, oneIf(err), err
}}
