package notify

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

var (
	//go:embed cancel.lua
	cancelSource string
	cancelScript = store.NewScript("cancel", cancelSource).Promised()

	//go:embed reschedule.lua
	rescheduleSource string
	rescheduleScript = store.NewScript("reschedule", rescheduleSource).Promised()
)

// Cancel removes a message, or a broadcast that was not sent yet, and returns the state it was in: Scheduled, Ready
// or Dead. After that it is not handed out again. Errors: ErrInvalid,
// ErrNotFound, ErrLeased (a worker has it: nothing was changed), ErrUnreplicated,
// or that of the connection.
func (p *Publisher) Cancel(ctx context.Context, topic, id string) (State, error) {
	keys, err := keysOf(p.store, topic, id)
	if err != nil {
		return 0, err
	}
	member := Member(topic, id)
	reply, err := p.store.Run(ctx, cancelScript, keys, topic, member)
	if err != nil {
		return 0, fmt.Errorf("cancel %s: %w", member, err)
	}
	state, err := stateOf(reply)
	if err == nil && state == Leased {
		err = ErrLeased
	}
	if err != nil {
		return state, fmt.Errorf("cancel %s: %w", member, err)
	}
	return state, nil
}

// Reschedule gives a message that is Scheduled or Ready, a broadcast among them, another due time: after
// a delay, or at a time. With neither it is due at once. Its time to live
// counts from the new due time; attempts used up stay so. Errors: ErrInvalid,
// ErrNotFound, ErrLeased and ErrDead (nothing was changed), ErrUnreplicated, or
// that of the connection.
func (p *Publisher) Reschedule(ctx context.Context, topic, id string, delay time.Duration, due time.Time) (Publication, error) {
	keys, err := keysOf(p.store, topic, id)
	if err != nil {
		return Publication{}, err
	}
	if err := checkWhen(delay, due); err != nil {
		return Publication{}, err
	}
	member := Member(topic, id)
	m := Message{Topic: topic, ID: id, Delay: delay, Due: due}
	reply, err := p.store.Run(ctx, rescheduleScript, keys, topic, member, when(&m))
	if err != nil {
		return Publication{}, fmt.Errorf("reschedule %s: %w", member, err)
	}
	state, err := stateOf(reply)
	switch {
	case err != nil:
	case state == Leased:
		err = ErrLeased
	case state == Dead:
		err = fmt.Errorf("%w: requeue it instead", ErrDead)
	}
	if err != nil {
		return Publication{}, fmt.Errorf("reschedule %s: %w", member, err)
	}
	at, _ := reply[1].(int64)
	now, _ := reply[2].(int64)
	broadcast, _ := reply[3].(int64)
	m.Broadcast = broadcast == 1
	result := resultOf(&outgoing{Message: m}, now, at)
	return result.Publication, result.Err
}

// of returns the keys of a message's topic, or what is wrong with its name.
func keysOf(s *Store, topic, id string) ([]string, error) {
	if err := CheckTopic(topic); err != nil {
		return nil, err
	}
	if err := CheckID(id); err != nil {
		return nil, err
	}
	return s.Keys().Topic(topic), nil
}

// stateOf reads the state that a script's reply begins with; none is ErrNotFound.
func stateOf(reply []any) (State, error) {
	if len(reply) == 0 {
		return 0, ErrNotFound
	}
	name, _ := reply[0].(string)
	if name == "" {
		return 0, ErrNotFound
	}
	return ParseState(name)
}
