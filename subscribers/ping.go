package subscribers

import (
	"context"
	"fmt"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// pingPrefix is what the payload of a ping begins with: a topic has no colon.
const pingPrefix = "ping:"

// pings are messages that a process sends to its own inbox, as a ring is sent. When one comes back, all that was sent to the
// inbox before has come as well: Redis keeps the order of what it sends on a connection.
type pings struct {
	mu    sync.Mutex
	pongs map[string]chan struct{} // of those that did not come back yet, by payload
}

// ping sends a ping to an inbox in a shard, and waits for it. The same call also writes, by removing a member that does not
// exist: a replica publishes, too, but accepts no claim. Errors: errUnsubscribed, or that of the connection or ctx.
func (p *pings) ping(ctx context.Context, shard store.Shard, inbox reach.Inbox) error {
	payload, pong := pingPrefix+notify.NewID(), make(chan struct{})
	p.mu.Lock()
	if p.pongs == nil {
		p.pongs = make(map[string]chan struct{})
	}
	p.pongs[payload] = pong
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pongs, payload)
	}()
	subscribed, err := shard.Ping(ctx, inbox, payload)
	switch {
	case err != nil:
		return fmt.Errorf("ping: %w", err)
	case subscribed == 0:
		return errUnsubscribed
	}
	select {
	case <-pong:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ping: %w: %w", errUnsubscribed, ctx.Err())
	}
}

// pong ends the ping of a payload, and reports whether there is one.
func (p *pings) pong(payload string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pong := p.pongs[payload]
	if pong == nil {
		return false
	}
	delete(p.pongs, payload)
	close(pong)
	return true
}
