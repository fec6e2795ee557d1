package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Cancel removes a message with the one that follows it, or a broadcast that was not
// sent yet, and returns the state it was in: Scheduled, Ready or Dead. After that the
// message is not handed out again, and its id is free. Done means that the message had
// ended: its id was still taken, and what was kept of it is gone. Errors: ErrInvalid, ErrNotFound, ErrLeased (a worker has the message; nothing
// was changed), ErrUnreplicated, or that of the connection.
//
// With the option Stop a worker that has the message is told to stop: its handler's context
// ends, and the state is Leased, with no error. The message is cancelled when the handler has
// returned, whatever it returns, or when the lease ends: it is not extended any more. It
// stays acknowledged where it is acknowledged before the worker hears of that, or by the
// handler itself.
func (p *Publisher) Cancel(ctx context.Context, topic, id string, options ...store.CancelOptions) (State, error) {
	o, err := store.Option(options)
	if err := errors.Join(checkName(topic, id), err); err != nil {
		return 0, err
	}
	member, cancel := record.Member(topic, id), p.store.Of(topic).Cancel
	if o.Stop {
		cancel = p.store.Of(topic).Stop
	}
	state, err := cancel(ctx, topic, member)
	switch {
	case err != nil:
	case state == 0:
		err = ErrNotFound
	case state == Leased && !o.Stop:
		err = ErrLeased
	}
	if err != nil {
		return state, fmt.Errorf("cancel %s: %w", member, err)
	}
	return state, nil
}

// CancelNext removes the message that follows another one of that id (After), whatever
// the state of that, which stays as it is. Errors: ErrInvalid, ErrNotFound if none
// follows, ErrUnreplicated, or that of the connection.
func (p *Publisher) CancelNext(ctx context.Context, topic, id string) error {
	if err := checkName(topic, id); err != nil {
		return err
	}
	member := record.Member(topic, id)
	there, err := p.store.Of(topic).CancelNext(ctx, topic, member)
	if err == nil && !there {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cancel what follows %s: %w", member, err)
	}
	return nil
}

// RescheduleIn makes a Scheduled or Ready message, or a broadcast that was not sent
// yet, due after a delay from now, rounded up to a millisecond; zero is at once. The
// time to live counts from the new due time; attempts stay used up. Errors: ErrInvalid,
// ErrNotFound, ErrLeased and ErrDead (nothing was changed), ErrUnreplicated, or that of
// the connection.
func (p *Publisher) RescheduleIn(ctx context.Context, topic, id string, delay time.Duration) (Publication, error) {
	return p.reschedule(ctx, &Message{Topic: topic, ID: id, Delay: delay})
}

// RescheduleAt is RescheduleIn with a due time; one in the past is at once.
func (p *Publisher) RescheduleAt(ctx context.Context, topic, id string, due time.Time) (Publication, error) {
	return p.reschedule(ctx, &Message{Topic: topic, ID: id, Due: due})
}

func (p *Publisher) reschedule(ctx context.Context, m *Message) (Publication, error) {
	if err := errors.Join(checkName(m.Topic, m.ID), fields.Check(&Message{Delay: m.Delay, Due: m.Due}, false), m.checkDue()); err != nil {
		return Publication{}, err
	}
	member := record.Member(m.Topic, m.ID)
	state, placed, err := p.store.Of(m.Topic).Reschedule(ctx, m.Topic, member, when(m.Delay, m.Due, 0), time.Time{})
	switch {
	case err != nil:
	case state == 0:
		err = ErrNotFound
	case state == Leased:
		err = ErrLeased
	case state == Dead:
		err = fmt.Errorf("%w: requeue it instead", ErrDead)
	}
	if err != nil {
		return Publication{}, fmt.Errorf("reschedule %s: %w", member, err)
	}
	result := resultOf(m, placed)
	result.Outcome = "" // that of a publish
	return result.Publication, result.Err
}

// checkName returns a Fault for an invalid topic or id.
func checkName(topic, id string) error {
	return errors.Join(record.CheckTopic(topic), record.CheckID(id))
}
