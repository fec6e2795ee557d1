package natsgate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
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

// carryOut settles the message of a token, or extends its lease. The receipt is
// nearly always that of the claim. Only if that lease is lost, carryOut reads
// whether it was extended since, which others may do at the same time. It returns what
// was left out; empty: nothing.
func (g *Gate) carryOut(ctx context.Context, t token, s settlement) (leftOut string, err error) {
	if s.verb == verbWork {
		return "", g.extend(ctx, t)
	}
	d := g.claimer.Delivery(t.topic, t.id, t.receipt)
	for {
		leftOut, err := g.settleOnce(ctx, d, s)
		if !errors.Is(err, notify.ErrLeaseLost) {
			return leftOut, err
		}
		receipt, fault := g.extended(ctx, t)
		switch {
		case fault != nil:
			return "", fault
		case receipt == d.Receipt:
			return "", err
		}
		d.Receipt = receipt
	}
}

// settleOnce settles a message by one receipt, and returns what was left out.
func (g *Gate) settleOnce(ctx context.Context, d *subscribers.Delivery, s settlement) (leftOut string, err error) {
	var out subscribers.Outcome
	switch s.verb {
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

// claimed returns the lease that a token names.
func (t token) claimed() store.Lease {
	return store.Lease{Member: store.Member(t.topic, t.id), Receipt: int64(t.receipt)}
}

// extend extends the lease of a token's message by the time of its claim, from now.
func (g *Gate) extend(ctx context.Context, t token) error {
	claimed := t.claimed()
	lost, err := g.store.Of(t.topic).ExtendAs(ctx, claimed, t.lease)
	if err == nil && lost {
		err = notify.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("extend %s: %w", claimed.Member, err)
	}
	return nil
}

// extended returns the present receipt of a token's lease: that of the claim,
// unless the lease was extended since.
func (g *Gate) extended(ctx context.Context, t token) (subscribers.Receipt, error) {
	claimed := t.claimed()
	receipt, err := g.store.Of(t.topic).Extended(ctx, claimed)
	if err != nil {
		return 0, fmt.Errorf("settle %s: %w", claimed.Member, err)
	}
	return subscribers.Receipt(receipt), nil
}
