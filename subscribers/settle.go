package subscribers

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed ack.lua
	ackSource string
	ackScript = notify.NewScript("ack", ackSource).Promised()

	//go:embed nack.lua
	nackSource string
	nackScript = notify.NewScript("nack", nackSource).Promised()

	//go:embed extend.lua
	extendSource string
	extendScript = notify.NewScript("extend", extendSource)

	//go:embed release.lua
	releaseSource string
	releaseScript = notify.NewScript("release", releaseSource)
)

// maxReason is how many bytes of a reason are kept.
const maxReason = 1000

// Ack acknowledges a message: it is done and gone. Of d it needs Topic, ID and
// Receipt, as all these calls do. Errors: notify.ErrLeaseLost, or that of the
// connection, after which it may or may not be acknowledged.
func (c *Claimer) Ack(ctx context.Context, d Delivery) error {
	lost, err := c.AckMany(ctx, d.Topic, []Delivery{d})
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("acknowledge %s: %w", notify.Member(d.Topic, d.ID), notify.ErrLeaseLost)
	}
	return err
}

// AckMany acknowledges messages of one topic and returns those whose lease was
// lost. Errors: notify.ErrInvalid, or that of the connection.
func (c *Claimer) AckMany(ctx context.Context, topic string, ds []Delivery) (lost []Delivery, err error) {
	if err := checkTopics(topic, ds); err != nil {
		return nil, err
	}
	for len(ds) > 0 {
		page := ds[:min(len(ds), MaxClaim)]
		reply, err := c.store.Run(ctx, ackScript, nil, settlement(page, topic)...)
		if err != nil {
			return lost, fmt.Errorf("acknowledge %s: %w", topic, err)
		}
		lost = append(lost, pick(page, reply)...)
		ds = ds[len(page):]
	}
	return lost, nil
}

// checkTopics reports a message that is not of the topic.
func checkTopics(topic string, ds []Delivery) error {
	for i := range ds {
		if ds[i].Topic != topic {
			return notify.Faultf("topic", "message %s: it is not of the topic %s; settle each topic by itself", notify.Member(ds[i].Topic, ds[i].ID), topic)
		}
	}
	return notify.CheckTopic(topic)
}

// settlement returns first, then the members of the messages, then their receipts.
func settlement(ds []Delivery, first ...any) []any {
	args := make([]any, 0, len(first)+3*len(ds))
	args = append(args, first...)
	for i := range ds {
		args = append(args, notify.Member(ds[i].Topic, ds[i].ID))
	}
	for i := range ds {
		args = append(args, int64(ds[i].Receipt))
	}
	return args
}

// pick returns the messages at the positions, counted from 1, that a script answered.
func pick(ds []Delivery, positions []any) []Delivery {
	var picked []Delivery
	for _, position := range positions {
		if i, _ := position.(int64); i >= 1 && int(i) <= len(ds) {
			picked = append(picked, ds[i-1])
		}
	}
	return picked
}

// Outcome is what became of a message that was given back.
type Outcome struct {
	State    notify.State // Scheduled or Dead
	Attempts int          // used up
	Due      time.Time    // of the next attempt
}

// Nack gives a message back as not done: it is due again after delay, or dead
// if that was its last attempt. Reason is kept with a dead one. Errors:
// notify.ErrInvalid, notify.ErrLeaseLost, or that of the connection.
func (c *Claimer) Nack(ctx context.Context, d Delivery, delay time.Duration, reason string) (Outcome, error) {
	if delay < 0 {
		return Outcome{}, notify.Faultf("delay", "delay %v: it is negative; use zero or more", delay)
	}
	return c.nack(ctx, d, delay, reason, false)
}

// Bury gives a message back as never to be done: it is dead. Errors as Nack's.
func (c *Claimer) Bury(ctx context.Context, d Delivery, reason string) (Outcome, error) {
	return c.nack(ctx, d, 0, reason, true)
}

func (c *Claimer) nack(ctx context.Context, d Delivery, delay time.Duration, reason string, dead bool) (Outcome, error) {
	member := notify.Member(d.Topic, d.ID)
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	bury := 0
	if dead {
		bury = 1
	}
	reply, err := c.store.Run(ctx, nackScript, c.store.Keys().Topic(d.Topic),
		d.Topic, member, int64(d.Receipt), ceilMs(delay), reason, c.maxAttempts, bury)
	if err != nil {
		return Outcome{}, fmt.Errorf("give back %s: %w", member, err)
	}
	name, _ := reply[0].(string)
	if name == "" {
		return Outcome{}, fmt.Errorf("give back %s: %w", member, notify.ErrLeaseLost)
	}
	state, err := notify.ParseState(name)
	if err != nil {
		return Outcome{}, fmt.Errorf("give back %s: %w", member, err)
	}
	used, _ := reply[1].(int64)
	due, _ := reply[2].(int64)
	return Outcome{State: state, Attempts: int(used), Due: time.UnixMilli(due)}, nil
}

// Extend gives a message a lease from now on and returns the new receipt; the
// old one is void. Errors: notify.ErrInvalid, notify.ErrLeaseLost, or that of the connection.
func (c *Claimer) Extend(ctx context.Context, d Delivery, lease time.Duration) (Receipt, error) {
	if err := checkLease(lease); err != nil {
		return 0, err
	}
	receipt, lost, err := c.extend(ctx, []Delivery{d}, lease)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("extend %s: %w", notify.Member(d.Topic, d.ID), notify.ErrLeaseLost)
	}
	return receipt.withDigit(d.Receipt), err
}

// extend extends up to MaxClaim leases and returns the receipt, but for the last
// digit of each, and the positions, counted from 1, of those that were lost.
func (c *Claimer) extend(ctx context.Context, ds []Delivery, lease time.Duration) (Receipt, []any, error) {
	reply, err := c.store.Run(ctx, extendScript, nil, settlement(ds, lease.Milliseconds())...)
	if err != nil {
		return 0, nil, fmt.Errorf("extend leases: %w", err)
	}
	deadline, _ := reply[0].(int64)
	return Receipt(deadline), reply[1:], nil
}

// Release gives messages of one topic back untouched: they are ready again
// since their Due, or now if that is zero, and no attempt is used up. It
// returns those whose lease was lost. Errors: notify.ErrInvalid, or that of the connection.
func (c *Claimer) Release(ctx context.Context, topic string, ds []Delivery) ([]Delivery, error) {
	if err := checkTopics(topic, ds); err != nil {
		return nil, err
	}
	return c.release(ctx, topic, "", ds)
}

// release is Release for an inbox that waits no longer for the topic.
func (c *Claimer) release(ctx context.Context, topic, inbox string, ds []Delivery) (lost []Delivery, err error) {
	for first := true; first || len(ds) > 0; first = false {
		page := ds[:min(len(ds), MaxClaim)]
		args := settlement(page, topic, inbox)
		for i := range page {
			due := int64(0)
			if !page[i].Due.IsZero() {
				due = page[i].Due.UnixMilli()
			}
			args = append(args, due)
		}
		reply, err := c.store.Run(ctx, releaseScript, c.store.Keys().Topic(topic), args...)
		if err != nil {
			return lost, fmt.Errorf("release %s: %w", topic, err)
		}
		lost = append(lost, pick(page, reply)...)
		ds = ds[len(page):]
	}
	return lost, nil
}
