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

// agedPolls are the callers that wait for messages of an age. They are in no waiting
// list: a subscriber that is rung there takes the message at once. They receive what
// is announced to programs of any language, over one subscription that is up while
// there are any callers.
type agedPolls struct {
	*leases
	ended   context.Context // ends when the claimer's Run does
	waiting atomic.Int64

	mu          sync.Mutex
	bells       map[string]map[chan struct{}]bool // what wakes the callers, by topic
	unsubscribe context.CancelFunc                // nil while there are no callers
	tasks       sync.WaitGroup                    // subscriptions
}

// wait waits for messages of an age until end. It claims again exactly when the
// oldest that is ready has the age, and when something becomes ready that may be
// older: a message that was released or rejected.
func (a *agedPolls) wait(ctx context.Context, topics []string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	bell := make(chan struct{}, 1)
	if err := a.enter(bell, topics); err != nil {
		return nil, err
	}
	defer a.leave(bell, topics)
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
		var rung <-chan struct{}
		quiet := time.After(min(lull, o.MinAge)) // nothing that becomes due meanwhile has the age before
		for waits := true; waits; {
			select {
			case <-quiet:
				rung = bell
			case <-rung:
				waits = false
			case <-ripe:
				waits = false
			case <-end:
				return nil, err
			case <-a.ended.Done():
				return nil, ErrStopping
			case <-ctx.Done():
				return nil, nil
			}
		}
	}
}

// enter has a bell ring when something of some topics may have become ready.
func (a *agedPolls) enter(bell chan struct{}, topics []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended.Err() != nil {
		return ErrStopping
	}
	for _, topic := range topics {
		if a.bells[topic] == nil {
			a.bells[topic] = make(map[chan struct{}]bool)
		}
		a.bells[topic][bell] = true
	}
	if a.unsubscribe == nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.unsubscribe = cancel
		a.tasks.Go(func() { a.store.Subscribe(ctx, a.ring, a.store.Every().Wakes()) })
	}
	return nil
}

func (a *agedPolls) leave(bell chan struct{}, topics []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, topic := range topics {
		if delete(a.bells[topic], bell); len(a.bells[topic]) == 0 {
			delete(a.bells, topic)
		}
	}
	if len(a.bells) == 0 {
		a.unsubscribe()
		a.unsubscribe = nil
	}
}

// stop returns when the subscription has ended. The claimer's Run has: no other
// caller enters.
func (a *agedPolls) stop() {
	a.mu.Lock()
	if a.unsubscribe != nil {
		a.unsubscribe()
	}
	a.mu.Unlock()
	a.tasks.Wait()
}

// ring wakes the callers whose topic may have something; a new subscription may have
// missed rings of its shard.
func (a *agedPolls) ring(e store.Event) {
	if e.Kind != reach.Subscribed && e.Kind != reach.Received {
		return
	}
	rung, _, _ := e.Woken()
	a.mu.Lock()
	defer a.mu.Unlock()
	for topic, bells := range a.bells {
		if e.Kind == reach.Received && topic != rung || e.Kind == reach.Subscribed && a.store.Of(topic) != e.Shard() {
			continue
		}
		for bell := range bells {
			signal(bell)
		}
	}
}

// A calm is a time in which a worker for messages of an age ignores rings, as [lull] says.
type calm struct {
	mu      sync.Mutex
	until   time.Time
	waiting bool // it was rung meanwhile
}

func (w *worker) isAged() bool { return w.o.MinAge > 0 }

// nextAged returns whether to claim messages of an age again at once, because the last
// claim brought some, or else in how long the oldest that is ready has the age; zero:
// none is ready.
func (w *worker) nextAged(got claimed) (more bool, again time.Duration) {
	if got.any() {
		return true, 0
	}
	w.calm.mu.Lock()
	w.calm.until = time.Now().Add(min(lull, w.o.MinAge)) // nothing that becomes due meanwhile has the age before
	w.calm.mu.Unlock()
	select {
	case <-w.rung: // during the claim
		w.wake()
	default:
	}
	return false, max(got.ripe, 0)
}

// wake is ring for a worker of messages of an age. During a calm it rings at its end.
func (w *worker) wake() {
	w.calm.mu.Lock()
	defer w.calm.mu.Unlock()
	left := time.Until(w.calm.until)
	switch {
	case w.calm.waiting:
	case left <= 0:
		w.ring()
	default:
		w.calm.waiting = true
		time.AfterFunc(left, func() {
			w.calm.mu.Lock()
			defer w.calm.mu.Unlock()
			w.calm.waiting = false
			w.ring()
		})
	}
}
