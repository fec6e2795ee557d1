package subscribers

import (
	"context"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
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
	ended context.Context // ends when the claimer's Run does

	mu          sync.Mutex
	topics      map[chan struct{}]string // of the callers, by what wakes them
	unsubscribe context.CancelFunc       // nil while there are no callers
	tasks       sync.WaitGroup           // subscriptions
}

// wait waits for messages of an age until end. It claims again exactly when the
// oldest that is ready has the age, and when something becomes ready that may be
// older: a message that was released or rejected.
func (a *agedPolls) wait(ctx context.Context, topic string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	bell := make(chan struct{}, 1)
	if err := a.enter(bell, topic); err != nil {
		return nil, err
	}
	defer a.leave(bell)
	for {
		ds, next, err := a.take(context.WithoutCancel(ctx), topic, o)
		if err != nil || len(ds) > 0 {
			return ds, err
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
				return nil, nil
			case <-a.ended.Done():
				return nil, ErrStopping
			case <-ctx.Done():
				return nil, nil
			}
		}
	}
}

// enter has a bell ring when something of a topic may have become ready.
func (a *agedPolls) enter(bell chan struct{}, topic string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended.Err() != nil {
		return ErrStopping
	}
	a.topics[bell] = topic
	if a.unsubscribe == nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.unsubscribe = cancel
		a.tasks.Go(func() { a.store.Subscribe(ctx, a.ring, a.store.Only().Wakes()) })
	}
	return nil
}

func (a *agedPolls) leave(bell chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.topics, bell)
	if len(a.topics) == 0 {
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
// missed rings.
func (a *agedPolls) ring(e store.Event) {
	if e.Kind != store.Subscribed && e.Kind != store.Received {
		return
	}
	rung, _ := a.store.Only().Woken(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	for bell, topic := range a.topics {
		if e.Kind == store.Subscribed || topic == rung {
			signal(bell)
		}
	}
}
