package natsgate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
)

// Term sends wake-ups, beats, deaths and broadcasts to NATS, and the messages of
// the topics that are delivered, while this process's carrier is elected: so one of
// many daemons sends. It is made for carrier.Options.OnTerm, returns when ctx has
// ended, and needs Run to run beside it.
func (g *Gate) Term(ctx context.Context, t carrier.Term) {
	var all sync.WaitGroup
	all.Go(func() { g.announceElection(ctx, t) })
	all.Go(func() { g.hint(ctx, t) })
	all.Go(func() { g.bridge(ctx) })
	if len(g.o.Deliver) > 0 {
		all.Go(func() { g.deliver(ctx) })
	}
	all.Wait()
}

// announceElection sends the event of an election as soon as NATS is connected.
func (g *Gate) announceElection(ctx context.Context, t carrier.Term) {
	elected := time.Now()
	for pause := (backoff.Pause{}); ctx.Err() == nil; pause.Wait(ctx) {
		if c := g.await(ctx); c != nil && c.nc.PublishMsg(g.beatMessage("event.carrier", t, elected)) == nil {
			return
		}
	}
}

// beatMessage returns a message that names the carrier.
func (g *Gate) beatMessage(subject string, t carrier.Term, at time.Time) *nats.Msg {
	return g.jsonEvent(subject, struct {
		Carrier string    `json:"carrier"`
		Epoch   int64     `json:"epoch"`
		Time    time.Time `json:"time"`
	}{t.Name, t.Epoch, at.UTC()})
}

// jsonEvent returns a message of JSON on a subject under the prefix.
func (g *Gate) jsonEvent(subject string, v any) *nats.Msg {
	m := nats.NewMsg(g.o.Prefix + "." + subject)
	m.Header.Set("Content-Type", "application/json")
	m.Data, _ = json.Marshal(v) // of types that always can
	return m
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

// lost reports whether a connection is lost.
func (c *connection) lost() bool { return c.nc.IsClosed() }

// during returns a context that ends when ctx does or a connection is lost.
func during(ctx context.Context, c *connection) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// hint sends hints until ctx ends.
func (g *Gate) hint(ctx context.Context, t carrier.Term) {
	h := newHints(t, g.o.Logger)
	var subscription sync.WaitGroup
	defer subscription.Wait()
	subscription.Go(func() {
		shard := g.store.Only()
		g.store.Subscribe(ctx, func(e store.Event) { g.note(h, e) }, shard.Wakes(), shard.DeathChannel())
	})
	defer g.hinting.End()
	for {
		g.hinting.Note()
		select {
		case <-ctx.Done():
			return
		case <-h.news:
			for _, m := range g.hintMessages(h.take(), t) {
				if g.send(m) == nil {
					g.count.hints.Add(1)
				} else {
					g.count.lostHints.Add(1)
				}
			}
		}
	}
}
