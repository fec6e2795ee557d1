package store

import (
	"context"
	"sync"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// watches are those of a process who wait for ends of messages. They share one
// subscription to a shard, which is there only while somebody waits.
type watches struct {
	mu      sync.Mutex
	waiting map[string]map[*Watch]bool // by member
	unseen  []string                   // members to look at, since an end of one may have been missed
	hearing *hearing                   // nil: nobody waits
}

// A hearing is the subscription that watches share, and what it runs.
type hearing struct {
	end     context.CancelFunc
	tasks   sync.WaitGroup
	up      bool          // the subscription; guarded by watches.mu
	looking chan struct{} // there is something to look at
}

// A Watch waits for the end of a message, which [Shard.Await] has announced.
type Watch struct {
	shard  Shard
	member string
	rung   chan struct{}
}

// watches returns those of the shard, whose number is known.
func (s Shard) watches() *watches {
	all, _ := s.store.watches.LoadOrStore(s.Number(), new(watches))
	return all.(*watches)
}

// Watch returns a watch of a member. It is rung by the end of that, and later than that
// where the ring was lost: once the subscription is up again, or by the next heartbeat.
// So call Await before: what ends behind it is not missed. Close the watch after use. The
// error is that of the connection.
func (s Shard) Watch(ctx context.Context, member string) (*Watch, error) {
	if err := s.store.Learn(ctx); err != nil {
		return nil, err
	}
	w := &Watch{shard: s, member: member, rung: make(chan struct{}, 1)}
	all := s.watches()
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.waiting == nil {
		all.waiting = make(map[string]map[*Watch]bool)
	}
	if all.waiting[member] == nil {
		all.waiting[member] = make(map[*Watch]bool)
	}
	all.waiting[member][w] = true
	switch {
	case all.hearing == nil:
		all.hearing = s.hearEnds()
	case all.hearing.up:
		all.unseen = append(all.unseen, member) // it may have ended between Await and now
		reach.Signal(all.hearing.looking)
	}
	return w, nil
}

// Rung returns a channel that receives when the message may have ended, or is dead.
// Rings while nobody receives are one.
func (w *Watch) Rung() <-chan struct{} { return w.rung }

// Closed returns a channel that is closed when the store is: no ring follows.
func (w *Watch) Closed() <-chan struct{} { return w.shard.store.Context().Done() }

// Close ends the watch; the last one ends the subscription.
func (w *Watch) Close() {
	all := w.shard.watches()
	all.mu.Lock()
	delete(all.waiting[w.member], w)
	if len(all.waiting[w.member]) == 0 {
		delete(all.waiting, w.member)
	}
	var last *hearing
	if len(all.waiting) == 0 {
		last, all.hearing, all.unseen = all.hearing, nil, nil
	}
	all.mu.Unlock()
	if last != nil {
		last.end()
		last.tasks.Wait()
	}
}

// hearEnds begins to hear of ends.
func (s Shard) hearEnds() *hearing {
	all := s.watches()
	ctx, end := context.WithCancel(s.store.Context())
	h := &hearing{end: end, looking: make(chan struct{}, 1)}
	h.tasks.Go(func() { s.store.Subscribe(ctx, func(e Event) { all.on(h, e) }, s.EndedChannel()) })
	h.tasks.Go(func() { s.look(ctx, h) })
	return h
}

// on notes an event of the subscription. An end that was announced while that was not up
// is found by a look, and so is one whose ring was lost.
func (all *watches) on(h *hearing, e Event) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.hearing != h {
		return
	}
	switch e.Kind {
	case reach.Received:
		all.ring(e.Payload)
	case reach.Subscribed, reach.Beat:
		h.up = true
		all.unseen = all.unseen[:0]
		for member := range all.waiting {
			all.unseen = append(all.unseen, member)
		}
		reach.Signal(h.looking)
	default:
		h.up = false
	}
}

// ring rings those who wait for a member. The mutex is held.
func (all *watches) ring(member string) {
	for w := range all.waiting[member] {
		reach.Signal(w.rung)
	}
}

// look looks at members that may have ended, whenever there are some, until ctx ends.
func (s Shard) look(ctx context.Context, h *hearing) {
	all := s.watches()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.looking:
		}
		for members := all.take(); len(members) > 0; members = all.take() {
			ended, err := s.Ended(ctx, members)
			if err != nil {
				break // the next beat, or the subscription when it is up again, looks at all
			}
			all.mu.Lock()
			for _, i := range ended {
				all.ring(members[i])
			}
			all.mu.Unlock()
		}
	}
}

// take takes members to look at, as many as one call takes.
func (all *watches) take() []string {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := min(len(all.unseen), MaxEnded)
	members := append([]string(nil), all.unseen[len(all.unseen)-n:]...)
	all.unseen = all.unseen[:len(all.unseen)-n]
	return members
}
