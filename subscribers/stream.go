package subscribers

import (
	"context"
	"slices"
	"sync"

	"github.com/bellhopd/bellhop/notify"
)

// A stream is what a call of Listen without a name receives: pages of one shard after
// another's. Of several shards each has a goroutine, so that one that does not answer delays
// no other. It has one page in memory, which is smaller the more shards there are, until the
// handler takes that.
type stream struct {
	members []*member
	at      []notify.Position // where the listener stands, for each member
	pages   chan page         // of several members
	shards  sync.WaitGroup
}

// A page is what comes next in a shard. The first one has no items: it says where the member begins.
type page struct {
	shard int
	items []item
	at    notify.Position
}

// A beginning is where a member begins.
type beginning struct {
	from   string // now, beginning, or else behind after; empty: it has begun
	after  notify.Position
	marked bool // after is of a bookmark
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

// place puts the members that are ready behind where they begin, and returns where the
// listener stands. It notes where the others begin: if now, at the time when the first one was ready.
func place(members []*member, begin []beginning) []notify.Position {
	at := make([]notify.Position, len(members))
	now := firstReady(members)
	for i, m := range members {
		switch b := &begin[i]; {
		case m.isReady():
			at[i], *b = m.hub.place(m, *b), beginning{}
		case b.from == FromBeginning().text:
		case b.from == FromNow().text || b.after > now:
			at[i], *b = now, beginning{after: now, from: now.String()}
		default:
			at[i] = b.after
		}
	}
	return at
}

// firstReady returns when the first member was ready, by Redis's clock.
func firstReady(members []*member) (first notify.Position) {
	for _, m := range members {
		if m.isReady() && (first == 0 || m.since < first) {
			first = m.since
		}
	}
	return first
}

// start starts a goroutine for each of several members, which end with ctx.
func (s *stream) start(ctx context.Context, begin []beginning) {
	if len(s.members) == 1 {
		return
	}
	s.pages = make(chan page)
	for i := range s.members {
		s.shards.Go(func() { s.send(ctx, i, begin[i]) })
	}
}

// send sends the pages of a member, once that is ready and stands where it begins.
func (s *stream) send(ctx context.Context, i int, begin beginning) {
	m := s.members[i]
	select {
	case <-m.ready:
	case <-ctx.Done():
		return
	}
	var err error
	for p := (page{shard: i, at: m.hub.place(m, begin)}); err == nil; p.items, err = m.hub.next(ctx, m) {
		select {
		case s.pages <- p:
		case <-ctx.Done():
			return
		}
	}
}

// next waits for what the listener has not read yet, and returns a page of one shard, and
// where the listener stood before; nil if there is but one. The error is that of ctx.
func (s *stream) next(ctx context.Context) ([]item, *standing, error) {
	if s.pages == nil {
		items, err := s.members[0].hub.next(ctx, s.members[0])
		return items, nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case p := <-s.pages:
			if len(p.items) == 0 {
				s.at[p.shard] = p.at
				continue
			}
			before := &standing{at: slices.Clone(s.at), shard: p.shard}
			s.at[p.shard] = p.items[len(p.items)-1].position
			return p.items, before, nil
		}
	}
}
