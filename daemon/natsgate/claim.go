package natsgate

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/subscribers"
)

// claim claims messages, sends each to the requester, and returns the reply that ends them.
func (g *Gate) claim(ctx context.Context, r request) (*nats.Msg, error) {
	var in calls.ClaimOptions
	if err := calls.ReadJSON(claimParams, "", r.data, reflect.ValueOf(&in).Elem()); err != nil {
		return nil, err
	}
	o := in.Options()
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

var claimParams = calls.Call{Input: reflect.TypeFor[calls.ClaimOptions]()}.Params()

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
