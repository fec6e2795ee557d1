package store

import (
	"context"
	"sync"
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
	shard  *shard
	member string
	rung   chan struct{}
}

// Watch returns a watch of a member. It is rung by the end of that, and later than that
// where the ring was lost: once the subscription is up again, or by the next heartbeat.
// So call Await before: what ends behind it is not missed. Close the watch after use. The
// error is that of the connection.
func (s Shard) Watch(ctx context.Context, member string) (*Watch, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	w := &Watch{shard: d, member: member, rung: make(chan struct{}, 1)}
	all := &d.watches
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
		all.hearing = d.hearEnds()
	case all.hearing.up:
		all.unseen = append(all.unseen, member) // it may have ended between Await and now
		signal(all.hearing.looking)
	}
	return w, nil
}

// Rung returns a channel that receives when the message may have ended, or is dead.
// Rings while nobody receives are one.
func (w *Watch) Rung() <-chan struct{} { return w.rung }

// Closed returns a channel that is closed when the store is: no ring follows.
func (w *Watch) Closed() <-chan struct{} { return w.shard.background.ctx.Done() }

// Close ends the watch; the last one ends the subscription.
func (w *Watch) Close() {
	all := &w.shard.watches
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
func (d *shard) hearEnds() *hearing {
	ctx, end := context.WithCancel(d.background.ctx)
	h := &hearing{end: end, looking: make(chan struct{}, 1)}
	h.tasks.Go(func() { d.hear(ctx, func(e Event) { d.watches.on(h, e) }, []string{d.keys.Ended()}) })
	h.tasks.Go(func() { d.look(ctx, h) })
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
	case Received:
		all.ring(e.Payload)
	case Subscribed, Beat:
		h.up = true
		all.unseen = all.unseen[:0]
		for member := range all.waiting {
			all.unseen = append(all.unseen, member)
		}
		signal(h.looking)
	default:
		h.up = false
	}
}

// ring rings those who wait for a member. The mutex is held.
func (all *watches) ring(member string) {
	for w := range all.waiting[member] {
		signal(w.rung)
	}
}

// signal makes a channel with room for one receive, unless it has something to receive.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// look looks at members that may have ended, whenever there are some, until ctx ends.
func (d *shard) look(ctx context.Context, h *hearing) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.looking:
		}
		for members := d.watches.take(); len(members) > 0; members = d.watches.take() {
			ended, err := d.handle().Ended(ctx, members)
			if err != nil {
				break // the next beat, or the subscription when it is up again, looks at all
			}
			d.watches.mu.Lock()
			for _, i := range ended {
				d.watches.ring(members[i])
			}
			d.watches.mu.Unlock()
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
