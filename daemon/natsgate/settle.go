package natsgate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// settle settles a claimed message.
func (g *Gate) settle(ctx context.Context, r request) (*nats.Msg, error) {
	t, err := g.unseal(ctx, r.name)
	if err != nil {
		return nil, err
	}
	s, err := parseSettlement(r.data)
	if err != nil {
		return nil, err
	}
	leftOut, err := g.carryOut(ctx, t, s)
	if err != nil {
		return nil, err
	}
	reply := &nats.Msg{Data: []byte("+OK")}
	if leftOut != "" {
		reply.Header = nats.Header{leftOutHeader: {leftOut}}
	}
	return reply, nil
}

// leftOutHeader says what of a settlement is not kept: result, or history (api.LeftOut).
const leftOutHeader = "Bellhop-Left-Out"

// carryOut settles the message of a token, or extends its lease by the time of its claim,
// from now. It returns what was left out; empty: nothing.
func (g *Gate) carryOut(ctx context.Context, t token, s settlement) (leftOut string, err error) {
	d := g.claimer.Delivery(t.topic, t.id, t.receipt)
	var out subscribers.Outcome
	switch s.verb {
	case verbWork:
		return "", d.Extend(ctx, max(t.lease, store.MinLease))
	case verbNak:
		delay := subscribers.ByBackoff
		if s.delay != nil {
			delay = *s.delay
		}
		if !s.keep {
			out, err = d.Nack(ctx, delay, "refused over nats with -NAK")
		} else if out, err = d.Snooze(ctx, delay); err == nil {
			g.count.snoozed.Add(1)
		}
	case verbTerm:
		reason := s.reason
		if reason == "" {
			reason = "refused for good over nats with +TERM"
		}
		out, err = d.Bury(ctx, reason)
	default:
		if s.result == nil {
			return "", d.Ack(ctx)
		}
		if forgotten, err := d.AckWith(ctx, *s.result); err != nil || !forgotten {
			return "", err
		}
		return api.LeftOutResult, nil
	}
	if out.Forgetful {
		leftOut = api.LeftOutHistory
	}
	return leftOut, err
}
