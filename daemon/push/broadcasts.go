package push

import (
	"context"
	"errors"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/subscribers"
)

// A radio is a named listener for each push of broadcasts. Its fields are those of Run's goroutine.
type radio struct {
	*Pusher
	listener *subscribers.Listener
	stations map[string]station // by the name under which they listen
	running  sync.WaitGroup
}

// A station is a listener that runs.
type station struct {
	concurrency int
	stop        context.CancelFunc
}

// tune listens for the pushes of these targets, and for no others any more.
func (r *radio) tune(ctx context.Context, targets map[string]*target) {
	for name, s := range r.stations {
		if t := targets[name]; t == nil || t.InFlight != s.concurrency {
			s.stop()
			delete(r.stations, name)
		}
	}
	for name, t := range targets {
		if _, on := r.stations[name]; on {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		r.stations[name] = station{t.InFlight, stop}
		r.running.Go(func() { r.listen(ctx, name, t) })
	}
}

// listen listens until ctx ends. A push that is removed loses its name a moment before or after this daemon hears of that.
func (r *radio) listen(ctx context.Context, name string, t *target) {
	o := subscribers.ListenOptions{Name: name, Concurrency: t.InFlight}
	for pause := (backoff.Pause{}); ctx.Err() == nil; pause.Wait(ctx) {
		err := r.listener.Listen(ctx, t.Topics[0], func(ctx context.Context, b *subscribers.Broadcast) error { return r.broadcast(ctx, name, b) }, o)
		if err != nil && !errors.Is(err, notify.ErrNoListener) {
			r.o.Logger.Error("cannot listen for a push; retrying", "push", t.Name, "error", err)
		}
	}
}

// broadcast pushes a broadcast to the URL of the push that listens under a name.
func (r *radio) broadcast(ctx context.Context, name string, b *subscribers.Broadcast) error {
	t := r.station(name)
	if t == nil {
		return subscribers.NotNow(errReplaced, leastPause)
	}
	return r.sendTo(ctx, t, subscribers.Delivery{Topic: b.Topic, ID: b.ID, Due: b.Due, Attempt: b.Attempt, Record: b.Record})
}
