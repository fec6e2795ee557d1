package natsgate

import (
	"context"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// BridgeBatch and BridgeBytes bound a backlog, MaxHints the hints that wait.
const (
	BridgeBatch = bridgeBatch
	BridgeBytes = bridgeBytes
	MaxHints    = maxHints
)

// A Backlog is a backlog.
type Backlog struct{ o *backlog }

// NewBacklog returns an empty backlog.
func NewBacklog() Backlog { return Backlog{newBacklog()} }

// Add adds a broadcast if there is room.
func (o Backlog) Add(b *subscribers.Broadcast) bool { return o.o.add(b) }

// Put adds a broadcast as soon as there is room, or ctx has ended.
func (o Backlog) Put(ctx context.Context, b *subscribers.Broadcast) { o.o.put(ctx, b) }

// Take waits for broadcasts and returns all that are there.
func (o Backlog) Take(ctx context.Context) []*subscribers.Broadcast { return o.o.take(ctx) }

// Note notes events as the carrier of a shard in the epoch 0, sends nothing, and returns the hints
// that wait then.
func (g *Gate) Note(shard store.Shard, events []store.Event) []*nats.Msg {
	t := &term{Gate: g, Term: carrier.Term{Shard: shard}, shards: 1}
	h := newHints(0)
	for _, e := range events {
		t.note(h, e)
	}
	return t.hintMessages(context.Background(), h.take())
}

// Answered waits for the answers to a message that was sent to a subject, over a connection that
// is lost when closed ends, and is not permitted one subject.
func (g *Gate) Answered(ctx context.Context, within time.Duration, denied string, answers <-chan *nats.Msg, closed context.Context) error {
	d := &delivery{
		Gate: g, conn: &connection{closed: closed, denied: map[string]bool{denied: true}}, of: &subscribers.Delivery{}, within: within,
		needs: []string{"jobs.a", "_INBOX.a.*"},
	}
	return d.answered(ctx, answers)
}

// IsLeftOut reports whether a broadcast is left out that waits to be sent, or to be sent again.
func IsLeftOut(b *subscribers.Broadcast) bool { return len(unexpired([]outgoing{{of: b}})) == 0 }

// Dial dials as for a connection to NATS, until ctx ends.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	return (&dialer{ctx: ctx}).Dial("tcp", address)
}
