package subscribers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// readsApart is how many pages a merge reads from Redis by itself and keeps at a time: with
// more, a shard that does not answer holds up no other's.
const readsApart = 4

// A merge is the memberships of one call of Listen: one in the hub of each shard that its
// pattern needs. It hands out what they get, a page of one shard after another's. Pages that
// a slow listener reads by itself are read aside, so that a shard that does not answer delays
// no other.
type merge struct {
	members []*member
	bell    chan struct{} // of them all
	remove  func()        // from the attendance

	begin []beginning       // of each member that is not placed
	at    []notify.Position // where the listener stands, for each member
	turn  int               // which member is next

	tasks sync.WaitGroup
	mu    sync.Mutex
	aside []aside // of each member
	reads int     // pages that are read, or were and are not handed out
}

// A beginning is where a member begins.
type beginning struct {
	from   string // now, beginning, or else behind after; empty: it has begun
	after  notify.Position
	marked bool // after is of a bookmark
}

// An aside is a page that is read aside. All but retry is guarded by merge.mu.
type aside struct {
	reading bool
	items   []item
	retry   *outage.Retry
}

// beginnings returns where the members of some hubs begin. The error is a notify.Fault.
func (l *Listener) beginnings(f From, hubs []*hub) ([]beginning, error) {
	numbers := make([]int, len(hubs))
	for i, h := range hubs {
		numbers[i] = h.shard.Number()
	}
	after, err := f.starts(numbers, len(l.made()))
	if err != nil {
		return nil, err
	}
	all := make([]beginning, len(hubs))
	for i := range all {
		if all[i] = (beginning{f.text, after[i], f.marked}); f == (From{}) {
			all[i].from = FromNow().text
		}
	}
	return all, nil
}

// join makes a listener a member of hubs.
func (l *Listener) join(hubs []*hub, p notify.Pattern, name string) *merge {
	g := &merge{bell: make(chan struct{}, 1), at: make([]notify.Position, len(hubs)), aside: make([]aside, len(hubs))}
	g.remove = l.here.add(p.String(), name, len(l.made()) > 1)
	for i, h := range hubs {
		g.members = append(g.members, h.enter(p, name, g.bell))
		g.aside[i].retry = newRetry(h.log)
	}
	return g
}

// leave ends the memberships. The contexts of all calls of next have ended.
func (g *merge) leave() {
	g.tasks.Wait()
	var leaving sync.WaitGroup
	for _, m := range g.members {
		leaving.Go(func() { m.hub.leave(m) })
	}
	leaving.Wait()
	g.remove()
}

// await waits until all members are ready; or since one is, for some time: the shards of the
// others may be away. The error is that of ctx.
func (g *merge) await(ctx context.Context) error {
	var patience <-chan time.Time
	for {
		ready := 0
		for _, m := range g.members {
			if m.isReady() {
				ready++
			}
		}
		switch {
		case ready == len(g.members):
			return ctx.Err()
		case ready > 0 && patience == nil:
			patience = time.After(reach.Patience)
		}
		select {
		case <-g.bell:
		case <-patience:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// place puts the members behind where they begin. That of one that is not ready is noted:
// one that begins now does so at the time when the others were ready.
func (g *merge) place(begin []beginning) {
	g.begin = begin
	now := g.since()
	for i := range g.members {
		if b := &g.begin[i]; !g.isPlaced(i) && b.from != FromBeginning().text {
			if b.from == FromNow().text || b.after > now {
				*b = beginning{after: now, from: now.String()}
			}
			g.at[i] = b.after
		}
	}
}

// since returns when the first member was ready, by Redis's clock.
func (g *merge) since() (first notify.Position) {
	for _, m := range g.members {
		if m.isReady() && (first == 0 || m.since < first) {
			first = m.since
		}
	}
	return first
}

// isPlaced reports whether a member stands where it begins, and puts one there that became ready.
func (g *merge) isPlaced(i int) bool {
	m := g.members[i]
	if g.begin[i].from == "" {
		return true
	}
	if !m.isReady() {
		return false
	}
	m.hub.place(m, g.begin[i])
	g.at[i], g.begin[i] = m.hub.cursor(m), beginning{}
	return true
}

// next waits for what the listener has not read yet, and returns a page of one shard, and
// where the listener stood before; nil if the merge has but one. The error is that of ctx.
func (g *merge) next(ctx context.Context) ([]item, *standing, error) {
	if len(g.members) == 1 {
		items, err := g.members[0].hub.next(ctx, g.members[0])
		return items, nil, err
	}
	for {
		for range g.members {
			i := g.turn
			g.turn = (i + 1) % len(g.members)
			if items := g.page(ctx, i); len(items) > 0 {
				before := &standing{at: slices.Clone(g.at), shard: i}
				g.at[i] = items[len(items)-1].position
				return items, before, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-g.bell:
		}
	}
}

// page returns a page of a member; none if there is none yet.
func (g *merge) page(ctx context.Context, i int) []item {
	if !g.isPlaced(i) {
		return nil
	}
	if items, wait := g.takeAside(i); wait || len(items) > 0 {
		return items
	}
	m := g.members[i]
	items, _, behind := m.hub.page(m)
	if behind {
		g.readAside(ctx, i)
	}
	return items
}

// takeAside returns a page that was read aside, and whether one is being read.
func (g *merge) takeAside(i int) (items []item, wait bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &g.aside[i]
	if items = a.items; len(items) > 0 {
		a.items = nil
		g.reads--
	}
	return items, a.reading
}

// readAside begins to read a page of a member, unless enough are read. The bell rings when
// the page is there, or another may be read.
func (g *merge) readAside(ctx context.Context, i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reads == readsApart {
		return
	}
	a, m := &g.aside[i], g.members[i]
	g.reads++
	a.reading = true
	g.tasks.Go(func() {
		items, err := m.hub.readAlone(ctx, m)
		g.mu.Lock()
		if a.items = items; len(items) == 0 {
			g.reads--
		}
		g.mu.Unlock()
		signal(g.bell) // for another's turn
		a.retry.Wait(ctx, err)
		g.mu.Lock()
		a.reading = false
		g.mu.Unlock()
		signal(g.bell)
	})
}
