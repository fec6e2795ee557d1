package guard

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// FreshConns are the connections without a request so far. A server that shuts down
// answers no request on these, and waits 5 s for each silent one; browsers open some
// that they never use.
type FreshConns struct {
	mu    sync.Mutex
	conns map[*Slot]bool
	none  chan struct{} // closed when there are none left; nil: drain does not wait
}

// SetState is called when a connection changes its state. An active one counts as new
// until its request has come: in between, net/http hangs up if the server shuts down.
func (f *FreshConns) SetState(conn *Slot, state http.ConnState) {
	switch state {
	case http.StateNew:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.conns == nil {
			f.conns = make(map[*Slot]bool)
		}
		f.conns[conn] = true
	case http.StateActive:
	default:
		f.Remove(conn)
	}
}

// Remove notes that a request has come, or that none will.
func (f *FreshConns) Remove(conn *Slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
	f.signal()
}

// signal wakes drain if there are none left. The mutex is held.
func (f *FreshConns) signal() {
	if len(f.conns) == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// Drain waits at most within for requests that may be on their way, and closes the connections still without one.
func (f *FreshConns) Drain(ctx context.Context, within time.Duration) {
	none := make(chan struct{})
	f.mu.Lock()
	f.none = none
	f.signal()
	f.mu.Unlock()
	enough := time.NewTimer(within)
	defer enough.Stop()
	select {
	case <-none:
	case <-enough.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		conn.Close()
	}
}

// Listeners are the open listeners of a server.
type Listeners struct {
	mu  sync.Mutex
	all []net.Listener
}

func (o *Listeners) Add(listeners ...net.Listener) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, listeners...)
}

// Close closes the listeners: no more connections are accepted.
func (o *Listeners) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.all {
		l.Close()
	}
}
