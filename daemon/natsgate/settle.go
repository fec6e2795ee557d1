package natsgate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

//go:embed extend.lua
var extendSource string

var extendScript = notify.NewScript("extend", extendSource)

// extendedLonger is for how long the receipt of a lease that was extended is
// kept after its end: the carrier takes the message back within that time.
const extendedLonger = time.Minute

// settle settles a claimed message.
func (g *Gate) settle(ctx context.Context, r request) (*nats.Msg, error) {
	t, err := g.secret.unseal(ctx, r.name)
	if err != nil {
		return nil, err
	}
	s, err := parseSettlement(r.data)
	if err != nil {
		return nil, err
	}
	if err := g.carryOut(ctx, t, s); err != nil {
		return nil, err
	}
	return &nats.Msg{Data: []byte("+OK")}, nil
}

// carryOut settles the message of a token. Its receipt is nearly always that of
// the claim; only where that is lost it is looked whether the lease was extended
// since, which others may do at the same time.
func (g *Gate) carryOut(ctx context.Context, t token, s settlement) error {
	if s.verb == verbWork {
		return g.extend(ctx, t)
	}
	d := subscribers.Delivery{Topic: t.topic, ID: t.id, Receipt: t.receipt, Attempt: t.attempt}
	for {
		err := g.settleOnce(ctx, d, s)
		if !errors.Is(err, notify.ErrLeaseLost) {
			return err
		}
		receipt, fault := g.extended(ctx, t)
		switch {
		case fault != nil:
			return fault
		case receipt == d.Receipt:
			return err
		}
		d.Receipt = receipt
	}
}

// settleOnce settles a message by one receipt.
func (g *Gate) settleOnce(ctx context.Context, d subscribers.Delivery, s settlement) (err error) {
	switch s.verb {
	case verbNak:
		delay := g.o.Backoff.Delay(d.Attempt)
		if s.delay != nil {
			delay = *s.delay
		}
		_, err = g.claimer.Nack(ctx, d, delay, "refused over nats with -NAK")
	case verbTerm:
		reason := s.reason
		if reason == "" {
			reason = "refused for good over nats with +TERM"
		}
		_, err = g.claimer.Bury(ctx, d, reason)
	default:
		err = g.claimer.Ack(ctx, d)
	}
	return err
}

// extendedKey is the string that holds the receipt that a token's lease has
// since it was extended.
func (g *Gate) extendedKey(t token) string {
	return g.store.Keys().Extended(notify.Member(t.topic, t.id))
}

// extend gives the message of a token the time again that its claim gave.
func (g *Gate) extend(ctx context.Context, t token) error {
	member := notify.Member(t.topic, t.id)
	reply, err := g.store.Run(ctx, extendScript, []string{g.extendedKey(t)},
		member, int64(t.receipt), t.lease.Milliseconds(), extendedLonger.Milliseconds())
	if err != nil {
		return fmt.Errorf("extend %s: %w", member, err)
	}
	if done, _ := reply[0].(int64); done == 0 {
		return fmt.Errorf("extend %s: %w", member, notify.ErrLeaseLost)
	}
	return nil
}

// extended returns the receipt that a token's lease has: that of the claim,
// unless it was extended since.
func (g *Gate) extended(ctx context.Context, t token) (subscribers.Receipt, error) {
	kept, err := g.store.Client().Get(ctx, g.extendedKey(t)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("settle %s: redis at %s: %w", notify.Member(t.topic, t.id), g.store.Where(), err)
	}
	was, is, _ := strings.Cut(kept, " ")
	receipt, err := strconv.ParseInt(is, 10, 64)
	if err != nil || was != strconv.FormatInt(int64(t.receipt), 10) {
		return t.receipt, nil
	}
	return subscribers.Receipt(receipt), nil
}
