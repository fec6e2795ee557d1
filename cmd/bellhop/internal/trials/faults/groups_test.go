package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// groupedTopics are those of which messages are in groups.
var groupedTopics = slices.Concat(handledTopics, claimedTopics, []string{branchedTopic})

// A gathering is a group to which a publisher adds messages.
type gathering struct {
	name string
	left int // until it publishes what waits for it
}

// join has a message be in a group.
func (p *publishing) join(m *notify.Message) {
	g := p.groups[m.Topic]
	if g == nil {
		g = &gathering{p.nextID(), 1 + p.rnd.IntN(6)}
		p.groups[m.Topic] = g
	}
	m.Group = g.name
	g.left--
}

// bare returns a message for a topic that has groups which asks for nothing.
func (p *publishing) bare(topic string) notify.Message {
	m := notify.Message{Topic: topic, ID: p.nextID(), Body: []byte("x")}
	if topic == branchedTopic {
		m.UniqueFor = keep
	}
	return m
}

// gather publishes what waits for groups that are large enough. Each second time another message is to wait, too, and one of the group comes late.
func (p *publishing) gather(ctx context.Context) {
	for _, topic := range groupedTopics {
		g := p.groups[topic]
		if g == nil || g.left > 0 {
			continue
		}
		delete(p.groups, topic)
		for range 1 + p.rnd.IntN(2) {
			m := p.bare(topic)
			m.AfterGroup, m.OnDead = topic+":"+g.name, []string{"", "go"}[p.rnd.IntN(2)]
			if p.rnd.IntN(4) == 0 {
				p.join(&m)
			}
			p.one(ctx, m)
			if p.rnd.IntN(6) == 0 {
				p.sent = append(p.sent, m) // to be cancelled, or given a time
			}
		}
		if p.rnd.IntN(2) == 0 {
			m := p.bare(topic)
			m.Group = g.name
			p.one(ctx, m)
		}
	}
}

// held returns how many messages of a topic wait for groups that dead letters hold, or that messages do that are held themselves, and were given no
// time.
func (w *world) held(ctx context.Context, topic string) (n int64, err error) {
	if _, branch := record.SplitBranch(topic); branch != "" { // its groups are those of its topic
		return 0, nil
	}
	var waiting []store.Group
	for cursor, more := "", true; more && err == nil; more = cursor != "" {
		var groups []store.Group
		groups, cursor, err = store.ListGroups(ctx, w.store, topic, cursor, store.MaxGroups)
		waiting = append(waiting, slices.DeleteFunc(groups, func(g store.Group) bool { return g.State != store.GroupHeld && g.State != store.GroupWaiting })...)
	}
	held := make(map[string]bool)
	for before := -1; before < len(held) && err == nil; {
		before = len(held)
		for _, g := range waiting {
			if err == nil && !held[g.Callback] {
				err = w.hold(ctx, topic, g, held)
			}
		}
	}
	if err != nil {
		return 0, err
	}
	soon := fmt.Sprint(time.Now().AddDate(1, 0, 0).UnixMilli())
	scheduled, err := w.store.Client().ZCount(ctx, w.store.KeysOf(topic).Scheduled(topic), soon, "+inf").Result()
	return min(int64(len(held)), scheduled), err
}

// hold notes what waits for a group if all that is left of that is dead or held.
func (w *world) hold(ctx context.Context, topic string, g store.Group, held map[string]bool) error {
	g, left, err := store.ShowGroup(ctx, w.store, topic, g.Name)
	holds := func(m store.GroupMember) bool { return m.State == notify.Dead || held[record.Member(m.Topic, m.ID)] }
	if len(left) > 0 && int64(len(left)) >= g.Left && !slices.ContainsFunc(left, func(m store.GroupMember) bool { return !holds(m) }) {
		held[g.Callback] = true
	}
	if errors.Is(err, store.ErrNoGroup) { // it was forgotten meanwhile
		return nil
	}
	return err
}
