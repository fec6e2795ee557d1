package natsgate

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
)

// Term sends wake-ups, beats, deaths and broadcasts of a shard to NATS, while this process's carrier is elected for the
// shard: so one of many daemons sends. It is made for carrier.Options.OnTerm, returns
// when ctx has ended, and needs Run to run beside it. Terms of several shards run side by
// side.
func (g *Gate) Term(ctx context.Context, elected carrier.Term) {
	shards, err := g.store.Shards(ctx)
	if err != nil {
		return // ctx ended: who was elected knows how many there are
	}
	t := &term{Gate: g, Term: elected, shards: len(shards)}
	var all sync.WaitGroup
	all.Go(func() { t.announceElection(ctx) })
	all.Go(func() { t.hint(ctx) })
	all.Go(func() { t.bridge(ctx) })
	all.Wait()
}

// A term is a run of Term.
type term struct {
	*Gate
	carrier.Term
	shards int // of the store
}

// number returns the number of the shard.
func (t *term) number() int { return t.Shard.Number() }

// of returns the number of the shard and how many there are, such as 3/8; empty where
// there is one.
func (t *term) of() string {
	if t.shards == 1 {
		return ""
	}
	return fmt.Sprintf("%d/%d", t.number(), t.shards)
}

// announceElection sends the event of an election as soon as NATS is connected.
func (t *term) announceElection(ctx context.Context) {
	for pause := (backoff.Pause{}); ctx.Err() == nil; pause.Wait(ctx) {
		if c := t.await(ctx); c != nil && c.nc.PublishMsg(t.beatMessage("event.carrier", t.Since)) == nil {
			return
		}
	}
}

// beatMessage returns a message that names the carrier, and which of several shards it carries.
func (t *term) beatMessage(subject string, at time.Time) *nats.Msg {
	beat := struct {
		Carrier string    `json:"carrier"`
		Epoch   int64     `json:"epoch"`
		Time    time.Time `json:"time"`
		Shard   *int      `json:"shard,omitempty"`
		Shards  int       `json:"shards,omitempty"`
	}{Carrier: t.Name, Epoch: t.Epoch, Time: at.UTC()}
	if number := t.number(); t.shards > 1 {
		beat.Shard, beat.Shards = &number, t.shards
	}
	return t.jsonEvent(subject, beat)
}

// jsonEvent returns a message of JSON on a subject under the prefix.
func (g *Gate) jsonEvent(subject string, v any) *nats.Msg {
	m := nats.NewMsg(g.o.Prefix + "." + subject)
	m.Header.Set("Content-Type", "application/json")
	m.Data, _ = json.Marshal(v) // of types that always can
	return m
}

// hint sends hints until ctx ends.
func (t *term) hint(ctx context.Context) {
	h := newHints(t.Epoch)
	defer t.unheard.Forget(t.number())
	var subscription sync.WaitGroup
	defer subscription.Wait()
	subscription.Go(func() {
		t.store.Subscribe(ctx, func(e store.Event) { t.note(h, e) }, t.Shard.Wakes(), t.Shard.DeathChannel())
	})
	loop, end := t.hinting.begin()
	defer end()
	for {
		loop.Note()
		select {
		case <-ctx.Done():
			return
		case <-h.news:
			t.sendHints(ctx, h.take())
		}
	}
}

// sendHints sends hints, and counts those that are lost.
func (t *term) sendHints(ctx context.Context, h hinted) {
	for _, m := range t.hintMessages(ctx, h) {
		if t.send(m) == nil {
			t.count.hints.Add(1)
		} else {
			t.count.lostHints.Add(1)
		}
	}
}
