package natsgate

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/subscribers"
)

const confirmWithin = 5 * time.Second // before broadcasts are sent again

// An outgoing is a broadcast as sent to NATS.
type outgoing struct {
	*nats.Msg
	of *subscribers.Broadcast
}

// outgoing returns a broadcast as sent to NATS.
func (t *term) outgoing(b *subscribers.Broadcast) outgoing {
	h := eventHeader(t.source(), b.Topic, b.ID, b.Due, b.Record, 0)
	h.Set("Bellhop-Position", b.Position.String())
	// An id may be used again for another broadcast; a position is never used again in its shard.
	sender := t.store.Prefix()
	if shard := t.of(); shard != "" {
		h.Set("Bellhop-Shard", shard)
		sender += ":" + shard
	}
	h.Set(nats.MsgIdHdr, sender+":"+b.Position.String())
	return outgoing{&nats.Msg{Subject: t.o.Prefix + ".broadcast." + b.Topic, Header: h, Data: b.Body}, b}
}

// unexpired returns the messages whose broadcasts have not expired.
func unexpired(messages []outgoing) []outgoing {
	expired := func(o outgoing) bool { return o.of.Expired() }
	if !slices.ContainsFunc(messages, expired) {
		return messages
	}
	return slices.DeleteFunc(slices.Clone(messages), expired)
}

// tooLarge counts and logs a broadcast that can never be sent over NATS.
func (g *Gate) tooLarge(m outgoing, err error) {
	g.count.tooLargeBroadcasts.Add(1)
	g.o.Logger.Error("broadcast is too large for nats; skipping it", "subject", m.Subject,
		"id", m.Header.Get("ce-id"), "bytes", wireSize(m.Msg), "error", err)
}

// refused counts that NATS refuses broadcasts, and logs it once.
func (t *term) refused(err error, subject string) {
	t.count.refusals.Add(1)
	t.unconfirmed.Begin(t.number(), "error", err, "subject", subject)
}
