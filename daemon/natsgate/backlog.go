package natsgate

import (
	"context"
	"sync"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	bridgeBatch = 500     // broadcasts that are confirmed together
	bridgeBytes = 4 << 20 // bytes of their bodies
)

// A backlog holds the broadcasts to be sent next, while others are being sent: no more
// than a batch, so that a NATS that is slow or away costs no more memory. One
// goroutine puts, another one takes.
type backlog struct {
	news, room chan struct{} // signals; each holds one

	mu      sync.Mutex
	waiting []*subscribers.Broadcast
	bytes   int
}

func newBacklog() *backlog {
	return &backlog{news: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds a broadcast as soon as there is room, or ctx has ended.
func (o *backlog) put(ctx context.Context, b *subscribers.Broadcast) {
	for !o.add(b) {
		select {
		case <-o.room:
		case <-ctx.Done():
			return
		}
	}
}

func (o *backlog) add(b *subscribers.Broadcast) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == bridgeBatch || o.bytes >= bridgeBytes {
		return false
	}
	o.waiting = append(o.waiting, b)
	o.bytes += len(b.Body)
	reach.Signal(o.news)
	return true
}

// take waits for broadcasts and returns all that are there; none when ctx has ended.
func (o *backlog) take(ctx context.Context) []*subscribers.Broadcast {
	for ctx.Err() == nil {
		select {
		case <-o.news:
		case <-ctx.Done():
		}
		if taken := o.empty(); len(taken) > 0 {
			return taken
		}
	}
	return nil
}

func (o *backlog) empty() []*subscribers.Broadcast {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.waiting
	o.waiting, o.bytes = nil, 0
	reach.Signal(o.room)
	return taken
}
