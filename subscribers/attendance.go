package subscribers

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// An attendance keeps the entry of a listening process among the workers. Where the store
// has one shard, the connection of its hub says that the process is there; of several
// shards a subscription to the first one does, for as long as the process listens to any.
type attendance struct {
	store  *notify.Store
	worker store.Worker

	life sync.Mutex // held while the subscription starts or stops
	stop func()     // ends the subscription; nil: there is none

	mu       sync.Mutex
	patterns map[string]int // how many calls of Listen have one
	names    map[string]int // the same of names
}

func newAttendance(s *notify.Store, w store.Worker) *attendance {
	return &attendance{store: s, worker: w, patterns: make(map[string]int), names: make(map[string]int)}
}

// add notes a call of Listen, and returns what notes its end. The first call that is in
// several shards begins the subscription, the end of the last one ends it.
func (a *attendance) add(pattern, name string, several bool) (remove func()) {
	a.life.Lock()
	defer a.life.Unlock()
	a.count(pattern, name, 1)
	if several && a.stop == nil {
		a.start()
	}
	return func() {
		a.life.Lock()
		defer a.life.Unlock()
		if last := a.count(pattern, name, -1); last && a.stop != nil {
			a.stop()
			a.stop = nil
		}
	}
}

// count adds a call of Listen, by 1, or removes it, by -1, and reports whether none is left.
func (a *attendance) count(pattern, name string, by int) (none bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.patterns[pattern] += by; a.patterns[pattern] == 0 {
		delete(a.patterns, pattern)
	}
	if a.names[name] += by; a.names[name] == 0 || name == "" {
		delete(a.names, name)
	}
	return len(a.patterns) == 0
}

// start starts the subscription.
func (a *attendance) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var one sync.WaitGroup
	one.Go(func() {
		note, channels, depart := a.begin(ctx)
		defer depart()
		a.store.Subscribe(ctx, note, channels...)
	})
	a.stop = func() {
		cancel()
		one.Wait()
	}
}

// duty returns the patterns and the names.
func (a *attendance) duty() duty {
	a.mu.Lock()
	defer a.mu.Unlock()
	return duty{topics: slices.Sorted(maps.Keys(a.patterns)), names: slices.Sorted(maps.Keys(a.names))}
}

// begin begins to keep the entry by a subscription. It returns what takes the events of
// that, its channels for the entry, and what removes the entry. A nil attendance keeps none.
func (a *attendance) begin(ctx context.Context) (note func(store.Event), channels []reach.Channel, depart func()) {
	if a == nil {
		return func(store.Event) {}, nil, func() {}
	}
	here := newPresence(a.store, a.worker, a.duty)
	return func(e store.Event) { here.note(ctx, e) }, []reach.Channel{here.channel()}, func() { here.end(ctx) }
}
