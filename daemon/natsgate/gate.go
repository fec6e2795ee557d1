package natsgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

// A Gate is the gateway that connects a store to NATS. It is run once.
type Gate struct {
	o        Options
	servers  []server // of the configuration
	found    []server // announced by their cluster; only Run uses it
	store    *notify.Store
	pub      *notify.Publisher
	anybody  calls.Client // each, for the rights are those of NATS
	claimer  *subscribers.Claimer
	listener *subscribers.Listener // of the bridges
	hinting  loops
	secret   *signing.Secret     // that tokens are sealed with
	slots    places              // of requests that are handled
	waits    places              // of those that wait, for messages or for the end of one
	waiting  atomic.Int64        // their number
	held     *semaphore.Weighted // bytes of the bodies of claims that waited
	reads    turns               // of inspections
	count    counters
	notices  notices
	link     link

	unheard     *outage.Many // hints of these shards cannot be received
	unconfirmed *outage.Many // broadcasts of these shards wait for NATS

	noReply, badReply             outage.Throttle
	badSettlement, lateSettlement outage.Throttle // without a reply subject

	running context.Context // ends with cut, when the gateway has stopped: calls that last end with it
	cut     context.CancelFunc

	made      time.Time
	identity  micro.ServiceIdentity
	endpoints []endpoint

	bridged sync.Map // numbers of the shards that this process has bridged before: a position was kept

	conn atomic.Pointer[connection] // nil: not connected

	reserved atomic.Pointer[map[string]bool] // subjects of pushes; nil: none

	mu      sync.Mutex
	quiet   bool          // no more requests are accepted
	service *service      // of the connection; nil: none
	change  chan struct{} // closed when conn changes
}

// setConn sets the current connection; nil: none. The mutex is held.
func (g *Gate) setConn(c *connection) {
	g.conn.Store(c)
	close(g.change)
	g.change = make(chan struct{})
}

// await waits for a connection to NATS and returns it; nil when ctx ended.
func (g *Gate) await(ctx context.Context) *connection {
	for {
		g.mu.Lock()
		c, change := g.conn.Load(), g.change
		g.mu.Unlock()
		if c != nil {
			return c
		}
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		}
	}
}

// send sends a message on the current connection. It buffers nothing: the error
// is nats.ErrDisconnected if there is no connection.
func (g *Gate) send(m *nats.Msg) error {
	c := g.conn.Load()
	if c == nil {
		return nats.ErrDisconnected
	}
	return c.nc.PublishMsg(m)
}

// handedOut reports a message that was sent to a client.
func (g *Gate) handedOut(d subscribers.Delivery) {
	if g.o.OnClaimed != nil {
		g.o.OnClaimed(d, d.Late())
	}
}

// Alive returns an error that names the loops of the gateway that are stuck.
func (g *Gate) Alive() error {
	if err := errors.Join(g.hinting.alive(), g.listener.Alive()); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// maxPayload returns the most bytes, headers included, of a message; 0 without a connection.
func (g *Gate) maxPayload() int64 {
	c := g.conn.Load()
	if c == nil {
		return 0
	}
	return c.nc.MaxPayload()
}

// Stats returns the counts.
func (g *Gate) Stats() Stats {
	s := g.count.read()
	s.Waits, s.Publisher = g.waiting.Load(), g.pub.Stats()
	s.Hinting, s.Bridging = g.hinting.last(), g.listener.Stats().Progress
	s.Endpoints = make(map[string]Tally)
	for _, e := range g.endpoints {
		s.Endpoints[e.name] = e.tally.read()
	}
	return s
}
