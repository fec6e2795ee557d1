package natsgate

import (
	"context"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// BridgeBatch and BridgeBytes bound an outbox, MaxHints the hints that wait.
const (
	BridgeBatch = bridgeBatch
	BridgeBytes = bridgeBytes
	MaxHints    = maxHints
)

// An Outbox is an outbox.
type Outbox struct{ o *outbox }

// NewOutbox returns an empty outbox.
func NewOutbox() Outbox { return Outbox{newOutbox()} }

// Add adds a broadcast if there is room.
func (o Outbox) Add(b *subscribers.Broadcast) bool { return o.o.add(b) }

// Put adds a broadcast as soon as there is room, or ctx has ended.
func (o Outbox) Put(ctx context.Context, b *subscribers.Broadcast) { o.o.put(ctx, b) }

// Take waits for broadcasts and returns all that are there.
func (o Outbox) Take(ctx context.Context) []*subscribers.Broadcast { return o.o.take(ctx) }

// Note notes events as the carrier of a shard, sends nothing, and returns how many hints
// wait then.
func (g *Gate) Note(shard store.Shard, events []store.Event) int {
	t := &term{Gate: g, Term: carrier.Term{Shard: shard}, shards: 1}
	h := newHints(0)
	for _, e := range events {
		t.note(h, e)
	}
	return len(t.hintMessages(h.take()))
}
