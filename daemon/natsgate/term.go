package natsgate

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/backoff"
)

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
	m := jsonMessage(v)
	m.Subject = g.o.Prefix + "." + subject
	return m
}
