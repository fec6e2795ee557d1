package subscribers

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/bellhopd/bellhop/notify"
)

// follow reads what is new until ctx ends.
func (h *hub) follow(ctx context.Context) {
	pause := pause{log: h.log}
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.news:
		}
		for ctx.Err() == nil {
			h.progress.Around()
			more, err := h.advance(ctx)
			pause.after(ctx, err)
			if err == nil && !more {
				break
			}
		}
	}
}

// advance reads what is new, and reports whether there may be more.
func (h *hub) advance(ctx context.Context) (more bool, err error) {
	h.mu.Lock()
	stale, heard, target, tail := h.stale && h.heard > 0, h.heard, h.target, h.tail
	topics := slices.Collect(maps.Keys(h.rung))
	if stale {
		h.stale = false
		h.looks++
	}
	look := h.looks
	h.rung = make(map[string]bool)
	h.mu.Unlock()
	switch {
	case stale:
		err = h.catchUp(ctx, tail, heard, look)
	case len(topics) > 0:
		err = h.readUp(ctx, topics, tail, target)
	default:
		return false, nil
	}
	if err != nil {
		h.mu.Lock()
		h.stale = true
		h.mu.Unlock()
	}
	return true, err
}

// catchUp reads all that was sent behind tail; the first time there is no tail.
// With it, the members are ready that the connection heard for before this look began.
func (h *hub) catchUp(ctx context.Context, tail notify.Position, heard, look uint64) error {
	after := tail
	if tail < 0 {
		after = endOfLogs
	}
	grown, err := h.grown(ctx, after, h.wanted)
	if err != nil {
		return err
	}
	if tail >= 0 {
		if err := h.readUp(ctx, grown.topics, tail, grown.last); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if tail < 0 { // the first time
		h.begin, h.tail = grown.last, grown.last
	}
	if grown.last < tail { // Redis lost its data, and its clock may be another
		tail = max(grown.last, min(tail, grown.now))
		h.window, h.bytes, h.begin, h.tail = nil, 0, tail, tail
	}
	for _, set := range []map[*member]bool{h.plain, h.named} {
		for m := range set {
			h.admit(m, heard, look)
		}
	}
	return nil
}

// admit tells a member that the hub hears for it. The mutex is held.
func (h *hub) admit(m *member, heard, look uint64) {
	m.cursor, m.valid = min(m.cursor, h.tail), min(m.valid, h.tail)
	select {
	case <-m.ready:
		return
	default:
	}
	if m.needs <= heard && m.looks < look {
		m.valid, m.cursor = h.tail, h.tail
		close(m.ready)
	}
}

// readUp reads the logs of topics from tail up to target, and hands that to the members.
func (h *hub) readUp(ctx context.Context, topics []string, tail, target notify.Position) error {
	for tail < target {
		h.progress.Around()
		var items []item
		end := target
		if len(topics) > 0 {
			var err error
			if items, end, err = h.read(ctx, topics, tail, target); err != nil {
				return err
			}
		}
		h.append(items, end)
		tail = end
	}
	return nil
}

// append adds to the window what was read up to end, and rings the members that are idle.
func (h *hub) append(items []item, end notify.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rouse(items)
	for _, i := range items {
		h.window = append(h.window, i)
		h.bytes += i.size()
	}
	h.tail = end
	n := 0
	for len(h.window)-n > windowItems || h.bytes > windowBytes && len(h.window)-n > 1 {
		h.begin = h.window[n].position
		h.bytes -= h.window[n].size()
		n++
	}
	if n > 0 {
		h.window = slices.Clone(h.window[n:]) // what was dropped can be freed
	}
}

// rouse rings the members that are idle and want one of the items. The mutex is held.
func (h *hub) rouse(items []item) {
	topics := make(map[string]bool)
	for _, i := range items {
		topics[i.topic] = true
	}
	for m := range h.plain {
		if !m.idle {
			continue
		}
		topic, one := m.pattern.Topic()
		if one && topics[topic] || !one && m.matchesAny(topics) {
			m.idle, m.cursor = false, h.tail
			signal(m.bell)
		}
	}
}

func (m *member) matchesAny(topics map[string]bool) bool {
	for topic := range topics {
		if m.pattern.Match(topic) {
			return true
		}
	}
	return false
}

func (i item) size() int {
	if i.broadcast == nil {
		return 0
	}
	return len(i.broadcast.Body)
}

// next waits for what a member has not read yet, and returns a page of it.
// The error is that of ctx.
func (h *hub) next(ctx context.Context, m *member) ([]item, error) {
	pause := pause{log: h.log}
	for ctx.Err() == nil {
		items, idle, behind := h.look(m)
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
			pause.after(ctx, err)
			if len(items) > 0 {
				return items, nil
			}
		}
	}
	return nil, ctx.Err()
}

// look takes a page for a member from the window. It reports whether it has
// read all there is, or is behind the window.
func (h *hub) look(m *member) (items []item, idle, behind bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
	for _, i := range h.window[from:] {
		if len(items) >= windowPage && i.position > m.cursor { // a gap may end where another topic goes on
			return items, false, false
		}
		m.cursor = i.position
		if m.pattern.Match(i.topic) {
			items = append(items, i)
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
	grown, err := h.grown(ctx, cursor, m.pattern.Match)
	if err != nil {
		return nil, err
	}
	items, end, err := h.read(ctx, grown.topics, cursor, tail)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.cursor = min(end, h.tail) // which may have been set back
	return m.missed(items), nil
}

// missed leaves out what a member does not miss: who begins at the beginning
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
