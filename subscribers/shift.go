package subscribers

import (
	"context"
	"slices"
	"sync"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A shift is what Run of a Subscriber runs. The fields behind over are guarded by
// Subscriber.mu.
type shift struct {
	ctx        context.Context // of the workers
	fail       context.CancelCauseFunc
	subscribed context.Context // of the subscriptions, which outlasts them
	all        sync.WaitGroup  // workers
	receiving  sync.WaitGroup  // subscriptions

	over  bool                 // no other worker begins
	first []string             // topics of the first subscription
	heard map[store.Shard]bool // where another one hears the inbox

	vacant sync.Map // topics without a worker whose waiting lists the inbox is leaving
}

// isOver reports whether no other worker begins. The mutex of the Subscriber is held.
func (at *shift) isOver() bool { return at != nil && at.over }

// begin begins to receive, and to handle the topics that have a handler.
func (s *Subscriber) begin(at *shift) (*shift, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shift != nil:
		return nil, fault.New("call", "call of Run: the subscriber ran already; make a new one")
	case len(s.workers) == 0:
		return nil, fault.New("handler", "subscriber: it has no handler; call Handle before Run")
	}
	s.shift, at.heard = at, make(map[store.Shard]bool)
	for _, w := range s.workers {
		if err := s.wrap(w); err != nil {
			at.over = true
			return nil, err
		}
	}
	var channels []reach.Channel
	for topic, w := range s.workers {
		at.first = append(at.first, topic)
		channels = append(channels, s.store.Of(topic).InboxChannel(s.inbox))
		if w.hasMinAge() {
			channels = append(channels, s.store.Of(topic).WakeChannel(topic))
		}
		s.start(w)
	}
	at.receiving.Go(func() { s.receive(at.subscribed, channels) })
	return at, nil
}

// end has no other worker begin.
func (s *Subscriber) end(at *shift) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.over = true
}

// add adds the worker of a topic that has none, or one that is ending: then it begins as soon
// as that claims no more. The mutex is held.
func (s *Subscriber) add(w *worker) error {
	before := s.workers[w.topic]
	if s.shift == nil {
		s.workers[w.topic] = w
		return nil
	}
	if err := s.wrap(w); err != nil {
		return err
	}
	if before != nil && !before.resting {
		before.next = w
		return nil
	}
	w.before, s.workers[w.topic] = before, w
	s.join(w)
	return nil
}

// join begins the work for a topic while Run runs. The mutex is held.
func (s *Subscriber) join(w *worker) {
	s.start(w)
	s.shift.receiving.Go(func() { s.reach(w) })
}

// start begins the work for a topic. The mutex is held.
func (s *Subscriber) start(w *worker) {
	at := s.shift
	at.all.Go(func() {
		ctx, cancel := context.WithCancel(at.ctx)
		defer cancel()
		if w.o.Until != nil {
			defer context.AfterFunc(w.o.Until, cancel)()
			if w.o.Until.Err() != nil { // AfterFunc cancels in a goroutine, and until that runs something might be claimed
				cancel()
			}
		}
		if err := w.run(ctx); err != nil {
			at.fail(err)
		}
		s.leave(w)
	})
}

// rest notes that a worker claims no more, and has the next one of its topic begin, if there
// is one.
func (s *Subscriber) rest(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.resting = true
	if next := w.next; next != nil && !s.isStopping() {
		w.next, next.before, s.workers[w.topic] = nil, w, next
		s.join(next)
	}
}

// leave forgets a worker that has ended.
func (s *Subscriber) leave(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStopping() {
		return
	}
	last := s.workers[w.topic]
	for at := last; at != nil; at = at.before {
		if at.before == w {
			at.before = w.before
		}
	}
	switch {
	case last != w:
	case w.before != nil:
		s.workers[w.topic] = w.before
	default:
		delete(s.workers, w.topic)
	}
}

// vacate has the inbox leave the waiting list of a topic that has no worker: that of the last one could not leave it at its end, so rings
// would find it forever, and no beat would name the topic. The mutex is held.
func (s *Subscriber) vacate(shard store.Shard, topic string) {
	at := s.shift
	if record.CheckTopic(topic) != nil {
		return
	}
	if _, leaves := at.vacant.LoadOrStore(topic, true); leaves {
		return
	}
	at.receiving.Go(func() {
		ctx, cancel := context.WithTimeout(at.subscribed, reach.SettleFor)
		defer cancel()
		_ = shard.Leave(ctx, s.inbox, []string{topic}, []int64{0}) // where this fails, too, the next ring has it done again
		at.vacant.Delete(topic)
		s.mu.RLock()
		defer s.mu.RUnlock()
		s.ring(topic) // a worker that began meanwhile
	})
}

// isStopping reports whether all workers end. The mutex is held.
func (s *Subscriber) isStopping() bool { return s.shift.over || s.shift.ctx.Err() != nil }

// reach rings a worker that was added, once the inbox is heard in the shard of its topic:
// where that has none of the first topics it takes another subscription.
func (s *Subscriber) reach(w *worker) {
	at := s.shift
	var pause backoff.Pause
	shard, err := s.store.ShardOf(at.subscribed, w.topic)
	for err != nil && at.subscribed.Err() == nil {
		pause.Wait(at.subscribed)
		shard, err = s.store.ShardOf(at.subscribed, w.topic)
	}
	if err != nil || s.isHeard(shard) {
		w.ring()
		return
	}
	s.subscribe(at.subscribed, shard, s.hear, shard.InboxChannel(s.inbox)) // which rings
}

// isHeard reports whether the inbox is heard in a shard, and notes that it is from now on.
func (s *Subscriber) isHeard(shard store.Shard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.shift
	heard := at.heard[shard] || slices.ContainsFunc(at.first, func(topic string) bool { return s.store.Of(topic) == shard })
	at.heard[shard] = true
	return heard
}
