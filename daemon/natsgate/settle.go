package natsgate

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// settle settles a claimed message. Where nobody is told of an error it is logged.
func (g *Gate) settle(ctx context.Context, r request) (*nats.Msg, error) {
	t, leftOut, err := g.settleBy(ctx, r)
	if err != nil && r.reply == "" {
		g.untold(t, err)
	}
	if err != nil {
		return nil, err
	}
	reply := &nats.Msg{Data: []byte("+OK")}
	if leftOut != "" {
		reply.Header = nats.Header{leftOutHeader: {leftOut}}
	}
	return reply, nil
}

// settleBy settles a message as a request says. It returns what names the message, as far
// as that is known, and what was left out.
func (g *Gate) settleBy(ctx context.Context, r request) (t token, leftOut string, err error) {
	if t, err = g.unseal(ctx, lastToken(r.name)); err != nil {
		return t, "", err
	}
	s, err := parseSettlement(r.data)
	if err != nil {
		return t, "", err
	}
	leftOut, err = g.carryOut(ctx, t, s)
	return t, leftOut, err
}

// untold logs an answer to a claimed message that settles nothing, and whose sender asked
// for no reply: for answers that are written wrong, and for all others, at most once a
// minute each.
func (g *Gate) untold(t token, err error) {
	often := &g.lateSettlement
	if errors.Is(err, notify.ErrInvalid) {
		often = &g.badSettlement
	}
	if n := often.ToLog(throttleInterval); n > 0 {
		g.o.Logger.Warn("answers to claimed messages settle nothing; unless they are settled otherwise, these come again",
			"answers", n, "topic", t.topic, "id", t.id, "error", err)
	}
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
		if s.progress != nil {
			ctx = store.WithProgress(ctx, *s.progress)
		}
		return "", d.Extend(ctx, max(t.lease, record.MinLease))
	case verbNak:
		delay := subscribers.ByBackoff
		if s.delay != nil {
			delay = *s.delay
		}
		if !s.keep {
			out, err = d.Nack(ctx, delay, cmp.Or(s.reason, errNak.Error()))
		} else if out, err = d.Snooze(ctx, delay); err == nil {
			g.count.snoozed.Add(1)
		}
	case verbTerm:
		out, err = d.Bury(ctx, cmp.Or(s.reason, termed))
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
