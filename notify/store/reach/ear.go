package reach

import (
	"context"
	"errors"
	"sync"
	"time"
)

// An ear is what one subscription hears of a shard on a wire. Its events wait for the
// subscription, so that a slow one holds up no other.
type ear struct {
	shard *shard
	names []string // of the channels
	lines []*line  // of these
	rung  chan struct{}
	ended chan struct{} // closed when nothing more is heard

	mu      sync.Mutex
	waiting []Event
	size    int   // bytes of these
	err     error // why it ended
}

// A line is a channel to which a wire is subscribed, and the ears on it.
type line struct {
	ears []*ear
	up   chan struct{} // closed when the server has confirmed the subscription
}

// maxWaiting is how many bytes of events may wait for a subscription. It is Redis's own
// limit for what waits for a subscriber.
const maxWaiting = 32 << 20

// eventBytes is about what an event takes beside its payload.
const eventBytes = 100

// errBehind is why a subscription ends that takes its events too slowly.
var errBehind = errors.New("events came faster than they were handled")

// listen passes events on until the ear has ended, ctx ends, or no beat came for too long.
func (e *ear) listen(ctx context.Context, silence time.Duration, on func(Event)) error {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		events, err := e.take()
		for _, one := range events {
			if one.Kind == Beat {
				quiet.Reset(e.shard.silence)
			}
			on(one)
		}
		if err != nil {
			return err
		}
		select {
		case <-e.rung:
		case <-e.ended:
		case <-quiet.C:
			return errSilent
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hear adds an event to those that wait.
func (e *ear) hear(one Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size += len(one.Payload) + eventBytes; e.size > maxWaiting {
		e.close(errBehind)
		return
	}
	e.waiting = append(e.waiting, one)
	Signal(e.rung)
}

// end ends the ear.
func (e *ear) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.close(err)
}

// close is end while the mutex is held.
func (e *ear) close(err error) {
	if e.err == nil {
		e.err = err
		close(e.ended)
	}
}

// take takes the events that wait, and why the ear has ended, if it has.
func (e *ear) take() (events []Event, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	events, e.waiting, e.size = e.waiting, nil, 0
	return events, e.err
}

// signal makes a channel with room for one receive, unless it has something to receive.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
