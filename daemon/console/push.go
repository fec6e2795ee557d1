package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

var pushPage = page{
	path: Root + "pushes/{push}", title: "Push", nav: "pushes", name: "push", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.push(ctx, v) },
}

// A pushView is what the page of a push shows.
type pushView struct {
	*visit
	pushRow
	Now    time.Time
	Topics []counted // of messages
	Put    []named   // how it was put

	MoreTopics bool // that are not shown
}

// push returns what the page of a push shows.
func (c *Console) push(ctx context.Context, v *visit) (any, error) {
	all, err := c.allPushes(ctx)
	if err != nil {
		return nil, err
	}
	p, err := pushed(v, all, v.r.PathValue("push"))
	if err != nil {
		return nil, err
	}
	view := &pushView{visit: v, pushRow: c.pushRow(p), Now: c.now(ctx), Put: putOfPush(p)}
	if p.Broadcasts {
		view.Leased, err = store.PushLeased(ctx, c.store, p)
	} else {
		err = c.topicsOf(ctx, p, view)
	}
	return view, err
}

// topicsOf adds the topics of a push to its page, and what is in flight of them all.
func (c *Console) topicsOf(ctx context.Context, p *store.Push, view *pushView) error {
	found, missing := c.caches.pushed.Get(ctx, p.Name, cache.Keep{Age: relisted}, func(ctx context.Context) (pushedTopics, error) {
		topics, all, err := store.PushTopics(ctx, c.store, p)
		return pushedTopics{topics, all}, err
	})
	shown := found.topics[:min(len(found.topics), pushRows)]
	var err error
	view.Topics, err = c.rated(ctx, shown)
	if missing = store.Missing(missing, err); missing != nil && !store.IsPartial(missing) {
		return missing
	}
	sum := int64(0)
	for _, one := range view.Topics {
		sum += one.Leased
	}
	view.MoreTopics = len(found.topics) > len(shown) || !found.all
	if missing == nil && !view.MoreTopics {
		view.Leased = &sum
	}
	return missing
}

// pushed returns the push of a name among all that a viewer may see and change.
func pushed(v *visit, all []store.Push, name string) (*store.Push, error) {
	if err := v.check("showPush", "name", name); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p store.Push) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s: %w", name, store.ErrNoPush)
	}
	return &all[i], v.AllowPush(name, all[i].Topics)
}

// putOfPush returns how a push was put, but its secrets.
func putOfPush(p *store.Push) []named {
	shown := pushRow{api.PushOf(*p)}
	rows := []named{{"to", shown.Target()}}
	if !p.IsNATS() {
		rows = append(rows, named{"secrets", fmt.Sprint(shown.Secrets) + ", never shown"})
	}
	what, most := "messages of", "of a topic, by each daemon"
	if p.Broadcasts {
		what, most = "broadcasts of", "by each daemon"
	}
	rows = append(rows, named{what, strings.Join(p.Topics, ", ")})
	return append(rows, named{"in flight at most", fmt.Sprint(p.InFlight, " ", most)}, named{"timeout", fault.Short(p.Timeout)})
}

// Headline returns what the push does, and since when it does not what it should.
func (p *pushView) Headline() string {
	switch {
	case p.Paused != "":
		return "Paused, " + p.Paused + ": its messages wait"
	case p.Failing != nil:
		return "Its endpoint has failed for " + short(p.Now.Sub(p.Failing.Since)) + ": its messages wait, and use up no attempts"
	case p.Closed != nil:
		return "Its endpoint wants no request for " + short(p.Closed.Until.Sub(p.Now)) + ": its messages wait, and use up no attempts"
	case p.Unsent:
		return "No daemon sends it: run one with " + p.needs()
	case len(p.Unheard) > 0, len(p.Stored) > 0:
		subjects := cmp.Or(strings.Join(p.Unheard, ", "), strings.Join(slices.Collect(maps.Keys(p.Stored)), ", "))
		return "Nobody listens on " + subjects + ", as a daemon found: its messages wait" + p.stored()
	}
	return "It works, as far as is known"
}

// needs names the setting without which a daemon does not send the push.
func (p *pushView) needs() string {
	if p.To != "" {
		return "BELLHOP_NATS_URL"
	}
	return "BELLHOP_PUSH_ALLOW, which names its net, or public"
}

// stored names the streams that store each try of a message on which nobody listens.
func (p *pushView) stored() string {
	streams := slices.Compact(slices.Sorted(maps.Values(p.Stored)))
	if len(streams) == 0 {
		return ""
	}
	return ". Each try is stored by " + strings.Join(streams, ", ") + ": take the subject from that stream, or have a client listen"
}

// Next says when an endpoint that fails is asked again.
func (p *pushView) Next() string {
	if p.Failing == nil || p.Paused != "" {
		return ""
	}
	return p.next(p.Now)
}

// Link returns the address of the page.
func (p *pushView) Link() string { return p.pushRow.Link() }

// Change returns the address of the form that changes the push.
func (p *pushView) Change() string { return putPushPath(p.Name) }

func (p *pushView) title() string { return p.Name }

// pushAct pauses, resumes, tests or deletes a push: the form has a button of that name, whose value is the name of the push.
var pushAct = act{path: Root + "acts/pushes", name: "change a push", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	what, name, err := v.button("pause", "resume", "delete", "test")
	if err != nil {
		return "", 0, err
	}
	if what == "delete" {
		p, err := ask[api.Push](ctx, c, v, "showPush", "name", name)
		if err != nil {
			return "", 0, err
		}
		left := "Its messages stay as they are."
		if p.Broadcasts {
			left = "What it has still to send is dropped."
		}
		if err := v.sure("Delete the push %s? %s", name, left); err != nil {
			return "", 0, err
		}
		v.instead = "pushes"
	}
	defer c.caches.pushes.Forget()
	if what == "test" {
		did, err := c.testPush(ctx, v, name)
		return did, oneIf(err), err
	}
	_, err = ask[any](ctx, c, v, what+"Push", "name", name)
	return past[what] + " the push " + name, oneIf(err), err
}}

// testPush sends a test to where a push leads.
func (c *Console) testPush(ctx context.Context, v *visit, name string) (did string, err error) {
	t, err := ask[api.PushTest](ctx, c, v, "testPush", "name", name)
	if err != nil {
		return "", err
	}
	took := short(time.Duration(t.TookMs) * time.Millisecond)
	if !t.OK {
		return "", &pageFault{Status: http.StatusBadGateway, Title: "The test of " + name + " failed", Detail: fmt.Sprintf("After %s: %s", took, t.Answer)}
	}
	return fmt.Sprintf("Tested the push %s, which took %s: %s", name, took, t.Answer), nil
}
