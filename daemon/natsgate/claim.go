package natsgate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// claim claims messages, sends each to the requester, and returns the reply that ends them.
func (g *Gate) claim(ctx context.Context, r request) (*nats.Msg, error) {
	o, err := claimOf(r.data)
	if err != nil {
		return nil, err
	}
	secret, err := g.secret.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	ds, err := g.claimer.Claim(ctx, r.name, o)
	if err != nil {
		return nil, err
	}
	for i, d := range ds {
		m := g.claimed(d, secret)
		m.Subject = r.reply
		err := g.send(m)
		switch {
		case err == nil:
			g.count.claimed.Add(1)
			g.handedOut(d)
		case errors.Is(err, nats.ErrMaxPayload):
			g.buryTooLarge(ctx, d, wireSize(m))
		default:
			g.count.lostReplies.Add(int64(len(ds) - i))
			if o.AckNow {
				g.lost(ds[i:], err)
			} else {
				// Sending may have used up the request's time. If the release fails, too, their leases expire.
				_, _ = g.claimer.ReleaseMany(context.WithoutCancel(ctx), r.name, ds[i:])
			}
			return nil, fmt.Errorf("send claimed messages: %w", err)
		}
	}
	end := nats.NewMsg("")
	end.Header.Set("Status", "204")
	return end, nil
}

// lost reports messages that a claim acknowledged, and that could not be sent.
func (g *Gate) lost(ds []subscribers.Delivery, err error) {
	g.o.Logger.Warn("messages that a claim acknowledged could not be sent, and are lost", "topic", ds[0].Topic, "messages", len(ds), "first", ds[0].ID, "error", err)
}

// claimOf reads a request to claim. An empty request is for one message; a lease
// of zero is that of the topic's settings. The error is a notify.Fault of each field
// that is wrong.
func claimOf(data []byte) (o subscribers.ClaimOptions, err error) {
	c := api.Claim{Max: 1}
	if len(data) > 0 {
		if err := api.Decode(data, &c); err != nil {
			return o, err
		}
	}
	var lease, age, ack, worker error
	if c.Worker != "" {
		o.Worker, worker = c.Worker, store.CheckWorker("worker", c.Worker)
	}
	if c.Lease != "" {
		o.Lease, lease = fields.ParseDuration("lease", c.Lease)
		if lease == nil {
			lease = fault.Within("lease", "lease", o.Lease, record.MinLease, record.MaxLease)
		}
	}
	if c.MinAge != "" {
		o.MinAge, age = fields.ParseDuration("min_age", c.MinAge)
		if age == nil && o.MinAge < 0 {
			age = fault.New("min_age", "min_age %v: it is negative; use zero or more", o.MinAge)
		}
	}
	if o.AckNow, ack = c.AckNow(); ack == nil && o.AckNow && c.Lease != "" {
		ack = fault.New("ack", "ack now: a message that is acknowledged at once has no lease; leave one of them out")
	}
	o.Max = c.Max
	return o, errors.Join(fault.Within("max", "max", c.Max, 1, record.MaxClaim), lease, age, ack, worker)
}

// claimed returns a claimed message as sent to the requester. Its reply subject settles
// it, unless the claim did.
func (g *Gate) claimed(d subscribers.Delivery, secret []byte) *nats.Msg {
	if d.Receipt == 0 {
		return &nats.Msg{Header: g.deliveryHeader(&d), Data: d.Body}
	}
	t := token{topic: d.Topic, id: d.ID, receipt: d.Receipt, attempt: d.Attempt, lease: d.Lease}
	return &nats.Msg{Reply: g.o.Prefix + ".settle." + t.seal(secret), Header: g.deliveryHeader(&d), Data: d.Body}
}

// buryTooLarge buries a message that can never be sent over NATS. If that fails, its
// lease expires, and the next claim over NATS finds it too large again.
func (g *Gate) buryTooLarge(ctx context.Context, d subscribers.Delivery, size int) {
	g.count.tooLarge.Add(1)
	if d.Receipt == 0 {
		g.lost([]subscribers.Delivery{d}, nats.ErrMaxPayload)
		return
	}
	reason := fmt.Sprintf("too large for nats: %d bytes with its headers, and max_payload is %d; claim it over HTTP or Redis", size, g.maxPayload())
	_, _ = d.Bury(ctx, reason)
}
