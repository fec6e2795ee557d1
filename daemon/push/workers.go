package push

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/subscribers"
)

// Workers handle the messages of the topics of one kind of pushes, while they serve, with a Subscriber. Topics come and go while that runs.
type workers struct {
	*Pusher
	handle subscribers.Handler

	mu         sync.Mutex
	each       map[string]*worker      // by topic
	found      int                     // of these, by patterns
	serving    context.Context         // of serve; nil: it is not called
	subscriber *subscribers.Subscriber // nil: none runs
	working    context.Context         // of the subscriber
	running    sync.WaitGroup          // subscribers
}

// A share is what a topic, or a name that listens, may have in flight.
type share struct {
	most int            // messages
	of   *budget.Budget // of its endpoint
}

// A worker handles the messages of one topic.
type worker struct {
	share
	found bool               // by a pattern: no push names it
	end   context.CancelFunc // of the work; nil: it never began
	busy  atomic.Int64       // messages that are handled
	last  atomic.Int64       // when one came or went, or the worker was made, as Pusher.clock
}

// serve has the workers work until ctx ends, and returns when what is under way is settled.
func (w *workers) serve(ctx context.Context) {
	w.mu.Lock()
	w.serving = ctx
	err := w.begin()
	w.mu.Unlock()
	if err != nil {
		w.o.Logger.Error("cannot push", "error", err)
	}
	<-ctx.Done()
	w.mu.Lock()
	w.serving = nil // no other subscriber begins
	w.mu.Unlock()
	w.running.Wait()
}

// begin has a subscriber handle all topics, unless one does, or there is nothing to do. The mutex is held.
func (w *workers) begin() error {
	if w.subscriber != nil || w.serving == nil || w.serving.Err() != nil || len(w.each) == 0 {
		return nil
	}
	s, err := subscribers.NewSubscriber(w.store, subscribers.SubscriberOptions{Version: w.o.Version, Grace: w.o.Grace, Logger: w.o.Logger})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(w.serving)
	w.subscriber, w.working = s, ctx
	for topic, one := range w.each {
		if err := w.start(topic, one); err != nil {
			stop()
			w.subscriber = nil
			return err
		}
	}
	w.running.Go(func() {
		defer stop()
		defer w.handovers.of(s)()
		if err := s.Run(ctx); err != nil && ctx.Err() == nil {
			w.o.Logger.Error("pushing ended", "error", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.subscriber == s {
			w.subscriber = nil
		}
	})
	return nil
}

// start has the subscriber work for a topic. The mutex is held.
func (w *workers) start(topic string, one *worker) error {
	var until context.Context
	until, one.end = context.WithCancel(w.working)
	one.last.Store(w.clock())
	err := w.subscriber.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		one.busy.Add(1)
		defer func() {
			one.last.Store(w.clock())
			one.busy.Add(-1)
		}()
		return w.handle(ctx, d)
	}, subscribers.HandleOptions{Concurrency: one.most, Budget: one.of, Until: until})
	if w.working.Err() != nil { // the next subscriber has the topic
		return nil
	}
	return err
}

// clock returns the time since the pusher was made, in ns.
func (p *Pusher) clock() int64 { return int64(time.Since(p.made)) }

// assign gives the workers the topics that pushes name, with what each may have in flight. It keeps those that patterns found for which found
// returns as much.
func (w *workers) assign(named map[string]share, found func(topic string) share) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var faults []error
	for topic, one := range w.each {
		its, is := named[topic]
		if !is && (one.found || w.found < w.bound) {
			its = found(topic)
		}
		switch {
		case its.most == 0:
			w.drop(topic, one)
		case its != one.share:
			w.drop(topic, one)
			faults = append(faults, w.add(topic, &worker{share: its, found: !is}))
		default:
			w.count(one, -1)
			one.found = !is
			w.count(one, 1)
		}
	}
	for topic, its := range named {
		if w.each[topic] == nil {
			faults = append(faults, w.add(topic, &worker{share: its}))
		}
	}
	return errors.Join(append(faults, w.begin())...)
}

// add adds a topic. The mutex is held.
func (w *workers) add(topic string, one *worker) error {
	if w.each == nil {
		w.each = make(map[string]*worker)
	}
	one.last.Store(w.clock())
	w.each[topic] = one
	w.count(one, 1)
	if w.subscriber == nil {
		return nil
	}
	return w.start(topic, one)
}

// drop ends the work for a topic. The mutex is held.
func (w *workers) drop(topic string, one *worker) {
	delete(w.each, topic)
	w.count(one, -1)
	if one.end != nil {
		one.end()
	}
}

// count counts a topic, by 1 or -1, if a pattern found it. The mutex is held.
func (w *workers) count(one *worker, by int) {
	if one.found {
		w.found += by
	}
}

// has reports whether there is a worker of a topic.
func (w *workers) has(topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.each[topic] != nil
}

// find adds a topic that a pattern names, if there is room. To make some, it lets that one go of those that patterns found which had
// nothing for the longest time, where the new one is ready.
func (w *workers) find(topic string, its share, ready bool) (room bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.each[topic] != nil {
		return true, nil
	}
	if w.found >= w.bound {
		idlest, one := w.idlest()
		if !ready || one == nil {
			return false, nil
		}
		w.drop(idlest, one)
	}
	return true, errors.Join(w.add(topic, &worker{share: its, found: true}), w.begin())
}

// idlest returns the topic, of those that patterns found, that has had nothing for the longest time; nil if all are busy. The mutex is
// held.
func (w *workers) idlest() (topic string, one *worker) {
	for other, o := range w.each {
		if o.found && o.busy.Load() == 0 && (one == nil || o.last.Load() < one.last.Load()) {
			topic, one = other, o
		}
	}
	return topic, one
}

// letGo ends the work for the topics that patterns found and that had nothing for some time: then they can be forgotten.
func (w *workers) letGo(idle time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, one := range w.each {
		if one.found && one.busy.Load() == 0 && w.clock()-one.last.Load() > int64(idle) {
			w.drop(topic, one)
		}
	}
}

// topics returns the topics that there are workers of.
func (w *workers) topics() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.each))
}

// held returns how many topics patterns found.
func (w *workers) held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}
