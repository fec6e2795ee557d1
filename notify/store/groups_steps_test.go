package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func (g *grouped) one(of ...string) string { return of[g.rand.IntN(len(of))] }

func (g *grouped) id() string { return "m" + strconv.Itoa(g.rand.IntN(memberIDs)) }

func (g *grouped) group() string { return "g" + strconv.Itoa(g.rand.IntN(groupNames)) }

// body returns one that no other message has.
func (g *grouped) body() []byte {
	g.bodies++
	return strconv.AppendInt(nil, int64(g.bodies), 10)
}

// member returns a random message that may be in a group.
func (g *grouped) member() notify.Message {
	m := notify.Message{Topic: g.Topic, ID: g.id(), Body: g.body(), Group: g.one("", g.group(), g.group(), g.group()), Key: g.one("", "", "", "a")}
	if g.rand.IntN(5) == 0 {
		m.Topic = g.one(g.works...)
	}
	m.Delay = []time.Duration{0, 0, 0, time.Millisecond, 3 * time.Millisecond, time.Hour}[g.rand.IntN(6)]
	m.IfExists = notify.IfExists(g.one("", "", "keep", "replace", "replace", "debounce"))
	if g.rand.IntN(4) == 0 {
		m.TTL = 4 * time.Millisecond
	}
	if g.rand.IntN(3) == 0 {
		m.MaxAttempts = 1
	}
	if g.rand.IntN(4) == 0 {
		m.Fail = notify.FailDrop
	}
	if g.rand.IntN(6) == 0 {
		m.LateAfter, m.Late = time.Millisecond, notify.Late(g.one("drop", "bury"))
	}
	if g.rand.IntN(6) == 0 {
		m.UniqueFor = 2 * time.Millisecond
	}
	if m.Group == "" && g.rand.IntN(3) == 0 {
		m.Then = notify.After
	}
	if m.Key != "" && len(g.works) == 1 && g.rand.IntN(3) == 0 { // of a copy that is dropped at once nothing tells
		m.IfBusy = "drop"
	}
	return m
}

// callback returns a random message that waits for a group: of either topic, and maybe in a group itself.
func (g *grouped) callback() notify.Message {
	m := notify.Message{Topic: g.beside, ID: "c" + strconv.Itoa(g.rand.IntN(callbackIDs)), Body: g.body()}
	m.AfterGroup = g.one(g.Topic, g.Topic, g.Topic, g.beside) + ":" + g.group()
	m.OnDead, m.IfExists = g.one("", "stop", "go", "go"), notify.IfExists(g.one("", "", "keep", "replace"))
	if g.rand.IntN(3) == 0 {
		m.Group = g.group()
	}
	if g.rand.IntN(4) == 0 {
		m.Key = "a"
	}
	return m
}

// published checks what a publish was refused for, by the model.
func (g *grouped) published(before groupView, m notify.Message, err error) {
	g.Helper()
	g.must(err)
	complete := m.Group != "" && g.model[homeOf(m.Topic)+":"+m.Group].complete || m.AfterGroup != "" && g.model[m.AfterGroup].complete
	other := ""
	for member, one := range before.messages {
		if one.AfterGroup == m.AfterGroup && m.AfterGroup != "" && member != m.Topic+":"+m.ID {
			other = member
		}
	}
	_, known := before.messages[m.Topic+":"+m.ID]
	switch {
	case errors.Is(err, store.ErrGroupComplete) != complete && (err == nil && m.IfExists != notify.Keep || !complete):
		g.Errorf("publish %+v: %v, and the groups are complete: %v", m, err, complete)
	case errors.Is(err, store.ErrGroupTaken) && other == "", err == nil && other != "" && !(known && m.IfExists == notify.Keep):
		g.Errorf("publish %+v: %v, and %q waits for the group", m, err, other)
	}
}

// lease returns one that the history has, or had, of a topic.
func (g *grouped) lease(topic string) store.Lease {
	if held := g.held[topic]; len(held) > 0 {
		return held[g.rand.IntN(len(held))].Lease
	}
	return store.Lease{Member: topic + ":" + g.id(), Receipt: 1}
}

// step does something, and returns what, and more about it.
func (g *grouped) step(ctx context.Context, before groupView) (what, more string) {
	work := g.one(g.works...)
	of := g.one(work, work, work, g.beside)
	shard := g.Shard
	switch g.rand.IntN(19) {
	case 0, 1:
		m := g.member()
		p, err := g.Publisher.Publish(ctx, m)
		g.published(before, m, err)
		if p.Outcome == store.OutcomeDropped && m.Group != "" && m.Group != before.messages[m.Topic+":"+m.ID].Group { // it joined, and left at once
			g.model[homeOf(m.Topic)+":"+m.Group].gone++
		}
		return "publish", fmt.Sprintf("%+v: %v, %v", m, p.Outcome, err)
	case 2:
		var all []notify.Message
		for _, i := range g.rand.Perm(memberIDs)[:1+g.rand.IntN(6)] {
			all = append(all, notify.Message{Topic: g.Topic, ID: fmt.Sprint("m", i), Body: g.body(), Group: g.group(), Delay: []time.Duration{0, 2 * time.Millisecond}[g.rand.IntN(2)]})
		}
		for i, r := range g.Publisher.PublishMany(ctx, all) {
			g.published(before, all[i], r.Err)
		}
		return "publish many", fmt.Sprintf("%+v", all)
	case 3, 4:
		m := g.callback()
		p, err := g.Publisher.Publish(ctx, m)
		g.published(before, m, err)
		return "publish a callback", fmt.Sprintf("%+v: %v %v", m, p, err)
	case 5, 6, 7:
		g.Carry(g.rand.IntN(2) == 0)
		return "carry", ""
	case 8, 9, 10:
		c := store.Claim{Topic: of, Max: 1 + g.rand.IntN(3), Lease: []time.Duration{2 * time.Millisecond, time.Minute}[g.rand.IntN(2)], AckNow: g.rand.IntN(5) == 0 && of != g.beside}
		claimed, err := shard.Claim(ctx, c)
		g.must(err)
		if !c.AckNow {
			g.held[of] = append(g.held[of], claimed.Messages...)
		}
		return "claim", fmt.Sprintf("%+v: %v", c, claimed)
	case 11:
		var some []store.Lease
		for range 1 + g.rand.IntN(3) {
			some = append(some, g.lease(of))
		}
		return "ack", g.ack(ctx, of, before, some...)
	case 12:
		lease := g.lease(work)
		_, _, err := shard.AckWith(ctx, work, lease, store.Result{Keep: time.Millisecond * time.Duration(g.rand.IntN(2))})
		g.must(err)
		return "ack with a result", fmt.Sprint(lease)
	case 13:
		n := store.Nack{Lease: g.lease(of), Delay: 2 * time.Millisecond, Reason: "x", Bury: g.rand.IntN(3) == 0}
		n.Keep = !n.Bury && g.rand.IntN(2) == 0
		done, err := shard.Nack(ctx, of, n)
		g.must(err)
		return "nack", fmt.Sprintf("%+v: %+v", n, done)
	case 14:
		lost, err := shard.Release(ctx, of, reach.Inbox{}, 0, []store.Return{{Lease: g.lease(of)}})
		g.must(err)
		return "release", fmt.Sprint(lost)
	case 15:
		return g.change(ctx, of, of+":"+g.id(), before)
	case 16:
		g.Sweep(store.Sweep{})
		return "sweep", ""
	case 17:
		if len(g.works) == 1 {
			return "nothing", ""
		}
		change := g.one("+x", "-x", "-y", "x,y", "")
		return "branches=" + change, fmt.Sprint(g.branches(ctx, change))
	default:
		letters := g.oldest(of, 1+g.rand.IntN(3))
		deal := shard.Requeue
		if g.rand.IntN(3) == 0 {
			deal = shard.Purge
		}
		done, err := deal(ctx, of, letters)
		g.must(err)
		return "deal", fmt.Sprintf("%v: %v", letters, done)
	}
}

// change cancels or reschedules a message, of the other topic one of the callbacks.
func (g *grouped) change(ctx context.Context, of, member string, before groupView) (what, more string) {
	if of == g.beside {
		member = fmt.Sprintf("%s:c%d", of, g.rand.IntN(callbackIDs))
	}
	switch g.rand.IntN(5) {
	case 0, 1:
		was, err := g.Shard.Cancel(ctx, of, member)
		g.must(err)
		if m := before.messages[member]; m.waits() {
			g.model[m.AfterGroup].over = store.GroupOpen
		}
		return "cancel " + member, was.String()
	case 2:
		_, err := g.Shard.Stop(ctx, of, member)
		g.must(err)
		return "stop " + member, ""
	}
	when := []store.When{0, store.In(time.Millisecond), store.In(time.Hour)}[g.rand.IntN(3)]
	was, _, err := g.Shard.Reschedule(ctx, of, member, when, time.Time{})
	g.must(err)
	return "reschedule " + member, fmt.Sprint(when, was)
}

// ack acknowledges messages, and notes the callbacks among them.
func (g *grouped) ack(ctx context.Context, of string, v groupView, leases ...store.Lease) string {
	g.Helper()
	lost, err := g.Shard.Ack(ctx, of, leases)
	g.must(err)
	seen := make(map[string]bool)
	for i, lease := range leases {
		if m, is := v.messages[lease.Member]; is && m.AfterGroup != "" && !slices.Contains(lost, i) && !seen[lease.Member] {
			seen[lease.Member] = true
			g.done[string(m.Body)]++
			g.model[m.AfterGroup].over = store.GroupDone
		}
	}
	return fmt.Sprintf("%v, lost %v", leases, lost)
}

// oldest returns the dead letters of a topic that died first.
func (g *grouped) oldest(of string, n int) (letters store.Letters) {
	ids := storetest.Dead(g.T, g.Store, of)
	for _, id := range ids[:min(n, len(ids))] {
		letters.Members = append(letters.Members, of+":"+id)
	}
	return letters
}
