package subscribers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// lull is for how long rings are ignored after a claim for messages of an age found
// none: on a busy topic each message rings, and hardly any gets old.
const lull = 50 * time.Millisecond

// minAgeWaiters are the calls of Claim that wait for messages of an age. They are in no waiting
// list: a subscriber that is rung there takes the message at once. They receive what
// is announced to programs of any language, over one subscription that is up while
// there are any callers.
type minAgeWaiters struct {
	*leases
	ended   context.Context // ends when the claimer's Run does
	waiting atomic.Int64

	mu          sync.Mutex
	wakeups     map[string]map[*wakeup]bool // what wakes the callers, by topic
	unsubscribe context.CancelFunc          // nil while there are no callers
	tasks       sync.WaitGroup              // subscriptions
}

// wait waits for messages of an age until end. It claims again exactly when the
// oldest that is ready has the age, and when something becomes ready that may be
// older: a message that was released or rejected.
func (a *minAgeWaiters) wait(ctx context.Context, topics []string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	wake := &wakeup{rung: make(chan struct{}, 1)}
	if err := a.enter(wake, topics); err != nil {
		return nil, err
	}
	defer a.leave(wake, topics)
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	for {
		ds, next, err := a.takeAny(context.WithoutCancel(ctx), topics, o)
		var missing *store.MissingError
		switch partly := errors.As(err, &missing); {
		case err != nil && !partly || len(ds) > 0:
			return ds, err
		case partly:
			next = sooner(next, backoff.Max) // it may answer then
		}
		var ripe <-chan time.Time
		if next >= 0 {
			ripe = time.After(next)
		}
		wake.quiet(o.MinAge)
		select {
		case <-wake.rung:
		case <-ripe:
		case <-end:
			return nil, err
		case <-a.ended.Done():
			return nil, ErrStopping
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// enter has a wakeup ring when something of some topics may have become ready.
func (a *minAgeWaiters) enter(one *wakeup, topics []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended.Err() != nil {
		return ErrStopping
	}
	for _, topic := range topics {
		if a.wakeups[topic] == nil {
			a.wakeups[topic] = make(map[*wakeup]bool)
		}
		a.wakeups[topic][one] = true
	}
	if a.unsubscribe == nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.unsubscribe = cancel
		a.tasks.Go(func() { a.store.Subscribe(ctx, a.ring, a.store.Every().Wakes()) })
	}
	return nil
}

func (a *minAgeWaiters) leave(one *wakeup, topics []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, topic := range topics {
		if delete(a.wakeups[topic], one); len(a.wakeups[topic]) == 0 {
			delete(a.wakeups, topic)
		}
	}
	if len(a.wakeups) == 0 {
		a.unsubscribe()
		a.unsubscribe = nil
	}
}

// stop returns when the subscription has ended. The claimer's Run has: no other
// caller enters.
func (a *minAgeWaiters) stop() {
	a.mu.Lock()
	if a.unsubscribe != nil {
		a.unsubscribe()
	}
	a.mu.Unlock()
	a.tasks.Wait()
}

// ring wakes the callers whose topic may have something; a new subscription may have
// missed rings of its shard.
func (a *minAgeWaiters) ring(e store.Event) {
	if e.Kind != reach.Subscribed && e.Kind != reach.Received {
		return
	}
	rung, _, _ := e.Woken()
	a.mu.Lock()
	defer a.mu.Unlock()
	for topic, wakeups := range a.wakeups {
		if e.Kind == reach.Received && topic != rung || e.Kind == reach.Subscribed && a.store.Of(topic) != e.Shard() {
			continue
		}
		for one := range wakeups {
			one.ring()
		}
	}
}

func (w *worker) hasMinAge() bool { return w.o.MinAge > 0 }

// nextOfMinAge returns whether to claim messages of an age again at once, because the last
// claim brought some, or else in how long the oldest that is ready has the age; zero:
// none is ready.
func (w *worker) nextOfMinAge(got claimed) (more bool, again time.Duration) {
	if got.any() {
		return true, 0
	}
	w.wakeup.quiet(w.o.MinAge)
	return false, max(got.ripe, 0)
}

// A wakeup wakes who waits for messages of an age: during a [lull] at its end.
type wakeup struct {
	rung chan struct{} // holds one

	mu      sync.Mutex
	until   time.Time // when the lull ends
	waiting bool      // it was rung meanwhile
}

// quiet begins a lull, since a claim found none of an age: nothing that becomes due
// meanwhile has it before.
func (w *wakeup) quiet(age time.Duration) {
	w.mu.Lock()
	w.until = time.Now().Add(min(lull, age))
	w.mu.Unlock()
	select {
	case <-w.rung: // during the claim
		w.ring()
	default:
	}
}

// ring says that something may be ready. It never blocks.
func (w *wakeup) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Until(w.until)
	switch {
	case w.waiting:
	case left <= 0:
		signal(w.rung)
	default:
		w.waiting = true
		time.AfterFunc(left, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waiting = false
			signal(w.rung)
		})
	}
}
