package subscribers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// maxReason is how many bytes of a reason are kept.
const maxReason = 1000

// Ack acknowledges a message: it is done and gone. Of d it needs Topic, ID and
// Receipt, as all these calls do. Errors: notify.ErrLeaseLost, or that of the
// connection, after which it may or may not be acknowledged.
func (c *Claimer) Ack(ctx context.Context, d Delivery) error {
	lost, err := c.AckMany(ctx, d.Topic, []Delivery{d})
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("acknowledge %s: %w", store.Member(d.Topic, d.ID), notify.ErrLeaseLost)
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
		at, err := c.store.Of(topic).Ack(ctx, topic, leases(page))
		if err != nil {
			return lost, fmt.Errorf("acknowledge %s: %w", topic, err)
		}
		lost = append(lost, pick(page, at)...)
		ds = ds[len(page):]
	}
	return lost, nil
}

// checkTopics reports a message that is not of the topic.
func checkTopics(topic string, ds []Delivery) error {
	for i := range ds {
		if ds[i].Topic != topic {
			return store.Faultf("topic", "message %s: it is not of the topic %s; settle each topic by itself", store.Member(ds[i].Topic, ds[i].ID), topic)
		}
	}
	return store.CheckTopic(topic)
}

// lease returns what settles a message.
func (d *Delivery) lease() store.Lease {
	return store.Lease{Member: store.Member(d.Topic, d.ID), Receipt: int64(d.Receipt)}
}

func leases(ds []Delivery) []store.Lease {
	all := make([]store.Lease, len(ds))
	for i := range ds {
		all[i] = ds[i].lease()
	}
	return all
}

// pick returns the messages at some indexes.
func pick(ds []Delivery, indexes []int) []Delivery {
	var picked []Delivery
	for _, i := range indexes {
		picked = append(picked, ds[i])
	}
	return picked
}

// Outcome is what became of a message that was given back.
type Outcome struct {
	State    notify.State // Scheduled or Dead
	Attempts int          // used up
	Due      time.Time    // of the next attempt
}

// ByBackoff is the delay of a Nack that leaves it to the topic's settings: a
// random wait, whose bound doubles with each attempt.
const ByBackoff time.Duration = -1

// Nack gives a message back as not done: it is due again after delay, or dead
// if that was its last attempt. Reason is kept with a dead one. Errors:
// notify.ErrInvalid, notify.ErrLeaseLost, or that of the connection.
func (c *Claimer) Nack(ctx context.Context, d Delivery, delay time.Duration, reason string) (Outcome, error) {
	if delay < 0 && delay != ByBackoff {
		return Outcome{}, store.Faultf("delay", "delay %v: it is negative; use zero or more", delay)
	}
	return c.nack(ctx, d, delay, reason, false)
}

// Bury gives a message back as never to be done: it is dead. Errors as Nack's.
func (c *Claimer) Bury(ctx context.Context, d Delivery, reason string) (Outcome, error) {
	return c.nack(ctx, d, 0, reason, true)
}

func (c *Claimer) nack(ctx context.Context, d Delivery, delay time.Duration, reason string, dead bool) (Outcome, error) {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	nack := store.Nack{Lease: d.lease(), Delay: delay, Reason: reason, Bury: dead}
	out, err := c.store.Of(d.Topic).Nack(ctx, d.Topic, nack)
	if err == nil && out.Lost {
		err = notify.ErrLeaseLost
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("give back %s: %w", nack.Member, err)
	}
	state := notify.Scheduled
	if out.Dead {
		state = notify.Dead
	}
	return Outcome{State: state, Attempts: out.Attempts, Due: out.Due}, nil
}

// Extend gives a message a lease from now on and returns the new receipt; the
// old one is void. A lease of zero is that of the topic's settings. Errors: notify.ErrInvalid, notify.ErrLeaseLost, or that of the connection.
func (c *Claimer) Extend(ctx context.Context, d Delivery, lease time.Duration) (Receipt, error) {
	if err := checkLease(lease); err != nil {
		return 0, err
	}
	receipt, lost, err := c.extend(ctx, []Delivery{d}, lease)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("extend %s: %w", store.Member(d.Topic, d.ID), notify.ErrLeaseLost)
	}
	return receipt.withDigit(d.Receipt), err
}

// extend extends up to MaxClaim leases and returns the receipt, but for the last
// digit of each, and the indexes of those that were lost.
func (c *Claimer) extend(ctx context.Context, ds []Delivery, lease time.Duration) (Receipt, []int, error) {
	receipt, lost, err := c.store.Of(ds[0].Topic).Extend(ctx, ds[0].Topic, leases(ds), lease)
	if err != nil {
		return 0, nil, fmt.Errorf("extend leases: %w", err)
	}
	return Receipt(receipt), lost, nil
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
		back := make([]store.Return, len(page))
		for i := range page {
			back[i] = store.Return{Lease: page[i].lease(), Due: page[i].Due}
		}
		at, err := c.store.Of(topic).Release(ctx, topic, inbox, back)
		if err != nil {
			return lost, fmt.Errorf("release %s: %w", topic, err)
		}
		lost = append(lost, pick(page, at)...)
		ds = ds[len(page):]
	}
	return lost, nil
}
