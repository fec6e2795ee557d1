package subscribers

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// join makes a listener a member of hubs; leave ends that.
func (l *Listener) join(hubs []*hub, p notify.Pattern, name string) (members []*member, leave func()) {
	remove := l.here.add(p.String(), name, len(l.made()) > 1)
	for _, h := range hubs {
		members = append(members, h.enter(p, name, max(pageBytes/len(hubs), leastPage)))
	}
	return members, func() {
		reach.AtOnce(len(members), func(i int) { hubs[i].leave(members[i]) })
		remove()
	}
}

// awaitReady waits until all members are ready; or since one is, for some time: the shards of
// the others may be away. The error is that of ctx.
func awaitReady(ctx context.Context, members []*member) error {
	patient, giveUp := context.WithCancel(ctx)
	defer giveUp()
	await := func(m *member) {
		select {
		case <-m.ready:
			time.AfterFunc(reach.Patience, giveUp)
		case <-patient.Done():
		}
	}
	var others sync.WaitGroup
	for _, m := range members[1:] {
		others.Go(func() { await(m) })
	}
	await(members[0])
	others.Wait()
	return ctx.Err()
}

// enter makes a listener a member; the first one starts the hub. The member is ready when
// the hub receives bells for it, and has checked all logs since.
func (h *hub) enter(pattern notify.Pattern, name string, page int) *member {
	m := &member{
		hub: h, pattern: pattern, name: name, page: page, stale: true, rung: make(map[string]bool),
		ready: make(chan struct{}), bell: make(chan struct{}, 1),
	}
	h.life.Lock()
	defer h.life.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		h.start()
	}
	h.count(m, 1)
	m.checks = h.checks
	if !h.covers(m) {
		h.tuning++
		h.retune()
	}
	m.needs = h.tuning
	h.stale = true
	signal(h.news)
	return m
}

// leave ends a membership; with the last one the hub stops.
func (h *hub) leave(m *member) {
	h.life.Lock()
	defer h.life.Unlock()
	h.mu.Lock()
	h.count(m, -1)
	last := len(h.plain)+len(h.named) == 0
	h.mu.Unlock()
	if last {
		h.stop()
		h.stop = nil
	}
}

// start starts the connection and the reader. Both mutexes are held.
func (h *hub) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	h.plain, h.named, h.wild = make(map[*member]bool), make(map[*member]bool), make(map[*member]bool)
	h.exact = make(map[string]int)
	h.all, h.topics, h.names, h.retune = false, nil, nil, func() {}
	h.subscribed, h.rung, h.window, h.bytes, h.bells = 0, make(map[string]bool), nil, 0, nil
	h.id, h.known, h.reported, h.rang, h.claim, h.passed = "", 0, 0, 0, 0, 0
	h.begin, h.tail = -1, -1
	h.doubt, h.joining = false, false
	h.loop.Note()
	all.Go(func() { h.listen(ctx) })
	all.Go(func() { h.follow(ctx) })
	h.stop = func() {
		cancel()
		all.Wait()
		h.sums.Flush()
		h.loop.End()
	}
}

// listen keeps the connection until ctx ends.
func (h *hub) listen(ctx context.Context) {
	h.watch.begin()
	defer h.watch.end()
	note, channel, depart := h.here.begin(ctx)
	defer depart()
	for ctx.Err() == nil {
		tuned, retune := context.WithCancel(ctx)
		h.mu.Lock()
		channels, number := h.channels(), h.tuning
		h.retune = retune
		h.mu.Unlock()
		h.shard.Store().Subscribe(tuned, func(e store.Event) {
			h.watch.note(e)
			note(e)
			h.receive(e, number)
		}, append(channels, channel...)...)
		retune()
	}
}

// place puts a member behind where it begins, and returns where it stands. Where it begins behind a bookmark
// older than the store, Redis lost all its data meanwhile: what was sent behind the bookmark is unknown.
func (h *hub) place(m *member, b beginning) notify.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch b.from {
	case "", "now":
		return m.cursor
	case "beginning":
		m.begun, m.floor = make(map[string]bool), m.valid
	}
	m.cursor = min(b.after, m.valid)
	founded := notify.Position(record.TimeOfID(h.id).UnixMicro())
	if b.marked && b.after > 0 && b.after < founded {
		to := b.after + 1 // before what was sent since
		switch {
		case h.tail <= b.after:
			to = max(m.since, to)
		case founded <= h.tail: // else the clock was set back
			to = founded
		}
		m.lost = &Gap{Topic: m.pattern.String(), After: b.after, UpTo: to}
	}
	return m.cursor
}

// next waits for what a member has not read yet, and returns a page of it.
// The error is that of ctx.
func (h *hub) next(ctx context.Context, m *member) ([]item, error) {
	retry := newRetry(h.log)
	for ctx.Err() == nil {
		items, idle, behind := h.page(m)
		switch {
		case len(items) > 0:
			return items, nil
		case idle:
			select {
			case <-ctx.Done():
			case <-m.bell:
			}
		case behind:
			items, err := h.readAlone(ctx, m)
			retry.Wait(ctx, err)
			if len(items) > 0 {
				return items, nil
			}
		}
	}
	return nil, ctx.Err()
}

// page takes a page for a member from the window. It reports whether it has
// read all there is, or is behind the window.
func (h *hub) page(m *member) (items []item, idle, behind bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := m.lost; g != nil {
		m.lost = nil
		return []item{{topic: g.Topic, position: g.UpTo, gap: g, why: storeLost}}, false, false
	}
	if m.idle {
		return nil, true, false
	}
	if m.cursor < max(h.begin, m.valid) {
		if !m.lagging && m.cursor >= m.valid {
			m.lagging = true
			h.stats.lagged.Add(1)
		}
		return nil, false, true
	}
	m.lagging = false
	from := sort.Search(len(h.window), func(i int) bool { return h.window[i].position > m.cursor })
	bytes := 0
	for _, i := range h.window[from:] {
		if (len(items) >= windowPage || bytes >= m.page) && i.position > m.cursor { // a gap may end where another topic goes on
			return items, false, false
		}
		m.cursor = i.position
		if m.pattern.Match(i.topic) {
			items = append(items, i)
			bytes += i.size()
		}
	}
	m.idle = len(items) == 0
	return items, m.idle, false
}

// readAlone reads a page for a member from Redis: it is behind the window.
func (h *hub) readAlone(ctx context.Context, m *member) ([]item, error) {
	h.mu.Lock()
	cursor, tail := m.cursor, h.tail
	h.mu.Unlock()
	grown, err := h.grown(ctx, cursor, m.only(), m.pattern.Match)
	if err != nil {
		return nil, err
	}
	r := reading{end: tail, store: grown.store}
	if len(grown.topics) > 0 {
		bytes := min(m.page*len(grown.topics), readBytes) // what one log holds decides how much of the others is read
		if r, err = h.read(ctx, grown.topics, cursor, tail, bytes, 0, 0); err != nil {
			return nil, err
		}
		r.cut(m.page)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.store != h.id || grown.store != h.id: // the store is another one, which the hub does not know yet
		h.stale = true
		signal(h.news)
		return nil, nil
	case m.cursor != cursor: // the member was set back
		return nil, nil
	}
	m.cursor = min(r.end, h.tail) // which may have been set back
	h.share(r.items)
	return m.missed(r.items), nil
}

// only returns the topics that a member wants, nil if it has a pattern.
func (m *member) only() []string {
	if topic, one := m.pattern.Topic(); one {
		return []string{topic}
	}
	return nil
}

// missed leaves out gaps that are none to a member: one that begins at the beginning
// does not miss what was removed from a log before. What is removed after the
// member has read of a log is a gap, wherever it is.
func (m *member) missed(items []item) []item {
	if m.begun == nil {
		return items
	}
	return slices.DeleteFunc(items, func(i item) bool {
		first := !m.begun[i.topic]
		m.begun[i.topic] = true
		if !first || i.gap == nil {
			return false
		}
		i.gap.After = max(i.gap.After, m.floor)
		return i.gap.UpTo <= m.floor
	})
}
