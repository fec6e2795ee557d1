package subscribers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// follow reads what is new until ctx ends.
func (h *hub) follow(ctx context.Context) {
	retry := newRetry(h.log)
	owed := time.NewTimer(0)
	defer owed.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.news:
		case <-owed.C:
		}
		for ctx.Err() == nil {
			h.loop.Note()
			more, err := h.advance(ctx)
			retry.Wait(ctx, err)
			if err == nil && !more {
				break
			}
		}
		owed.Reset(h.untilCheck())
	}
}

// untilCheck returns in how long a check that is due may be made.
func (h *hub) untilCheck() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.doubt || h.subscribed == 0 {
		return time.Hour
	}
	return time.Until(h.checked.Add(checksApart))
}

// advance reads what is new, and reports whether there may be more. While a check
// is due nothing is read: what the check would find comes before other news.
func (h *hub) advance(ctx context.Context) (more bool, err error) {
	h.mu.Lock()
	if !h.doubt && !h.stale {
		h.weigh()
	}
	h.stale = h.stale || h.all && h.passed > maxPassed && len(h.plain) > 0
	check := h.subscribed > 0 && (h.stale || h.doubt && time.Since(h.checked) >= checksApart)
	held, rung := h.stale || h.doubt, len(h.rung) > 0
	h.mu.Unlock()
	switch {
	case check:
		err = h.checkAll(ctx)
	case held || !rung:
		return false, nil
	default:
		err = h.readOn(ctx)
	}
	if err != nil {
		h.mu.Lock()
		h.stale = true
		h.mu.Unlock()
	}
	return true, err
}

// checkAll checks all logs that the members want, and rings for those that have grown;
// the first time there is nothing to compare with. When those are read, the members
// are ready that the connection covered before the check began.
func (h *hub) checkAll(ctx context.Context) error {
	h.mu.Lock()
	h.stale, h.doubt, h.checked = false, false, time.Now()
	h.checks++
	checks, subscribed, own, after := h.checks, h.subscribed, h.own(), min(h.tail, h.reported)
	if h.tail < 0 {
		after = endOfLogs
	}
	h.mu.Unlock()
	grown, err := h.grown(ctx, after, own, h.concerns)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.tail < 0:
		h.begin, h.tail = grown.last, grown.last
	case grown.store != h.id:
		h.foundAnew(grown)
	case grown.last < h.tail:
		h.setBack(max(grown.last, min(h.tail, grown.now))) // the clock may have been set
	}
	h.id, h.known, h.reported, h.rang, h.claim, h.passed = grown.store, grown.last, grown.last, 0, 0, 0
	h.found(grown.topics)
	h.joining, h.upTo, h.on, h.joins, h.since = true, grown.last, subscribed, checks, grown.now
	h.admit()
	return nil
}

// found takes note of what a check found: these topics have grown, and no others. The mutex is held.
func (h *hub) found(topics []string) {
	for _, topic := range topics {
		if h.wants(topic) {
			h.rung[topic] = true
		}
		h.ringNamed(topic)
	}
	if len(h.rung) == 0 {
		h.tail = max(h.tail, h.known)
	}
}

// setBack takes note that the logs end earlier than the hub has read: Redis lost
// some of its data. The mutex is held.
func (h *hub) setBack(to notify.Position) {
	for m := range h.named {
		m.stale = true
		signal(m.bell)
	}
	if to >= h.tail {
		return // and new broadcasts will be behind that
	}
	for m := range h.plain {
		m.cursor, m.valid = min(m.cursor, to), min(m.valid, to)
	}
	h.window, h.bytes, h.begin, h.tail = nil, 0, to, to
}

// foundAnew takes note that Redis lost all its data. What was sent meanwhile is
// unknown: all members get a gap. The mutex is held.
func (h *hub) foundAnew(grown growth) {
	to := h.tail + 1 // before what was sent since
	if grown.last <= h.tail {
		to = max(grown.last, grown.now)
	}
	for m := range h.plain {
		if m.isReady() {
			m.loses(h.tail, to)
		}
	}
	for m := range h.named {
		m.stale, m.left = true, true
		signal(m.bell)
	}
	h.window, h.bytes, h.begin, h.tail = nil, 0, to, to
}

// loses takes note that a member misses everything from its place up to a position. The mutex is held.
func (m *member) loses(tail, to notify.Position) {
	after := m.cursor
	if m.idle {
		after = tail
	}
	if m.lost != nil { // which is not reported yet
		after = m.lost.After
	}
	m.lost = &Gap{Topic: m.pattern.String(), After: min(after, to), UpTo: to}
	m.cursor, m.valid, m.begun, m.idle = to, to, nil, false
	signal(m.bell)
}

// isReady reports whether the hub receives bells for a member.
func (m *member) isReady() bool {
	select {
	case <-m.ready:
		return true
	default:
		return false
	}
}

// admit makes the members ready that waited for a check, once what the check found
// is read. The mutex is held.
func (h *hub) admit() {
	if !h.joining || h.tail < h.upTo {
		return
	}
	h.joining = false
	for _, set := range []map[*member]bool{h.plain, h.named} {
		for m := range set {
			if !m.isReady() && m.needs <= h.on && m.checks < h.joins {
				m.valid, m.cursor, m.since = h.tail, h.tail, max(h.since, h.tail)
				close(m.ready)
				signal(m.bell)
			}
		}
	}
}

// readOn reads a page of the logs that have grown, up to where Redis says that all
// logs end, and hands it to the members. Other logs that have grown, and that the
// members want, are read with them: their bells are lost, or on their way.
func (h *hub) readOn(ctx context.Context) error {
	h.mu.Lock()
	topics, others := h.toRead()
	tail, id, claim := h.tail, h.id, h.claim
	behind := max(tail, h.known) // what the last check found is rung for
	h.claim, h.passed = 0, 0
	h.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	r, err := h.read(ctx, topics, tail, 0, readBytes, others, behind)
	if err != nil {
		return err
	}
	if r.store != id || r.last < tail || r.more {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stale, h.doubt = h.stale || r.store != id || r.more, true
		if r.last < tail { // then there is nothing behind tail
			clear(h.rung)
		}
		return nil
	}
	missing := slices.DeleteFunc(r.others, func(topic string) bool { return !h.wanted(topic) })
	if len(missing) > 0 {
		if r, err = h.read(ctx, append(topics, missing...), tail, r.last, readBytes, 0, 0); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.store != id {
		h.stale = true
		return nil
	}
	h.doubt = h.doubt || r.last < claim // the bell named what Redis does not have
	for _, topic := range missing {
		h.rung[topic] = true
	}
	if r.end == r.last {
		clear(h.rung)
	}
	h.append(r.items, r.end)
	h.admit()
	return nil
}

// toRead returns the topics to read now, and how many others to report. Where
// the hub does not subscribe to all logs, it reads all to which it subscribes. The mutex is held.
func (h *hub) toRead() (topics []string, others int) {
	if h.all {
		return slices.Collect(maps.Keys(h.rung)), maxOthers
	}
	topics = slices.Collect(maps.Keys(h.exact))
	if len(topics) == 0 { // the members that wanted the topic are gone
		clear(h.rung)
	}
	return topics, 0
}

// append adds to the window what was read up to end, and rings the idle members. The mutex is held.
func (h *hub) append(items []item, end notify.Position) {
	h.rouse(items)
	h.share(items)
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

// share replaces items of a reading by equal ones that other listeners hold already. The mutex is held.
func (h *hub) share(items []item) {
	for n, i := range items {
		if i.size() >= sharedBody {
			items[n].broadcast = h.large.one(i.broadcast)
		}
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
