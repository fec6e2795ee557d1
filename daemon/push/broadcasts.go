package push

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/subscribers"
)

// listening are the named listeners, one for each push of broadcasts. Its fields are those of Run's goroutine.
type listening struct {
	*Pusher
	listener *subscribers.Listener
	running  map[string]running // by the names
	left     atomic.Bool        // names of pushes that are gone may be left in Redis
	all      sync.WaitGroup
}

// A running is one that runs.
type running struct {
	share
	pattern string
	stop    context.CancelFunc
}

// assign listens for the pushes of these targets, and for no others any more.
func (l *listening) assign(ctx context.Context, targets map[string]*target) {
	for name, s := range l.running {
		if t := targets[name]; t == nil || t.share() != s.share || t.Topics[0] != s.pattern {
			s.stop()
			delete(l.running, name)
		}
	}
	for name, t := range targets {
		if _, on := l.running[name]; on {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		l.running[name] = running{t.share(), t.Topics[0], stop}
		l.all.Go(func() {
			l.listen(ctx, name, t)
			l.left.Store(true) // if the push was removed while it registered
		})
	}
}

// forget removes what pushes listened under that are gone from shards where it was left.
func (l *listening) forget(ctx context.Context) {
	l.left.Store(false)
	if err := l.store.ForgetPushListeners(ctx); err != nil && ctx.Err() == nil {
		l.left.Store(true)
		l.o.Logger.Warn("cannot remove what pushes listened under; trying again", "error", err)
	}
}

// listen listens until ctx ends. A push that is removed loses its name a moment before or after this daemon hears of that; until then it is
// refused.
func (l *listening) listen(ctx context.Context, name string, t *target) {
	o := l.o.Broadcasts
	o.Name, o.Concurrency, o.Budget = name, t.InFlight, t.budget
	for pause := (backoff.Pause{}); ctx.Err() == nil; pause.Wait(ctx) {
		err := l.listener.Listen(ctx, t.Topics[0], func(ctx context.Context, b *subscribers.Broadcast) error { return l.broadcast(ctx, name, b) }, o)
		if err != nil && !errors.Is(err, notify.ErrNoListener) {
			l.o.Logger.Error("cannot listen for a push; retrying", "push", t.Name, "error", err)
		}
	}
}

// broadcast pushes a broadcast to the URL of the push that listens under a name.
func (l *listening) broadcast(ctx context.Context, name string, b *subscribers.Broadcast) error {
	t := l.heardBy(name)
	if t == nil {
		return subscribers.NotNow(errReplaced, leastPause)
	}
	return l.sendTo(ctx, t, subscribers.Delivery{Topic: b.Topic, ID: b.ID, Due: b.Due, Attempt: b.Attempt, Record: b.Record})
}
