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

// Term sends to NATS what the store has to tell, while this process's carrier is
// elected, so that of many daemons one sends: wake-ups, beats, deaths and
// broadcasts, and messages of the topics that are delivered. It is
// carrier.Options.OnTerm, returns when ctx has ended, and needs Run to run beside it.
func (g *Gate) Term(ctx context.Context, t carrier.Term) {
	var all sync.WaitGroup
	all.Go(func() { g.tellElection(ctx, t) })
	all.Go(func() { g.hint(ctx, t) })
	all.Go(func() { g.bridge(ctx) })
	if len(g.o.Deliver) > 0 {
		all.Go(func() { g.deliver(ctx) })
	}
	all.Wait()
}

// tellElection tells that a carrier was elected, as soon as NATS is there.
func (g *Gate) tellElection(ctx context.Context, t carrier.Term) {
	elected := time.Now()
	for pause := (backoff.Pause{}); ctx.Err() == nil; pause.Wait(ctx) {
		if l := g.await(ctx); l != nil && l.conn.PublishMsg(g.beatMessage("event.carrier", t, elected)) == nil {
			return
		}
	}
}

// beatMessage returns a message that tells who carries.
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

// await waits until a connection to NATS stands, and returns it; nil when ctx ended.
func (g *Gate) await(ctx context.Context) *line {
	for {
		g.mu.Lock()
		l, change := g.line.Load(), g.change
		g.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		}
	}
}

// lost reports whether a connection is lost.
func (l *line) lost() bool { return l.conn.IsClosed() }

// during returns a context that ends when ctx does or a connection is lost.
func during(ctx context.Context, l *line) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-l.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// hint passes on hints until ctx ends.
func (g *Gate) hint(ctx context.Context, t carrier.Term) {
	h := newHints(t, g.o.Logger)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	hearing.Go(func() {
		shard := g.store.Only()
		g.store.Hear(ctx, func(e store.Event) { g.note(h, e) }, shard.Wakes(), shard.Deaths())
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
