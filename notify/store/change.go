package store

import "context"

var (
	cancelScript     = script("cancel", promised)
	rescheduleScript = script("reschedule", promised)
)

// Cancel removes a message, or a broadcast that waits, and returns the state it was
// in: nothing was changed if that is Leased; 0 if there is none. Errors:
// ErrUnreplicated, or that of the connection.
func (s Shard) Cancel(ctx context.Context, topic, member string) (State, error) {
	r, err := s.run(ctx, cancelScript, topic, member)
	if err != nil {
		return 0, err
	}
	state := r.state()
	return state, r.end()
}

// Reschedule gives a message that is Scheduled or Ready, a broadcast among them,
// another due time. It returns the state it was in, and where it stands since:
// nothing was changed if that state is Leased or Dead; 0 if there is none. The only
// Refusal is TooLate. Errors: ErrUnreplicated, or that of the connection.
func (s Shard) Reschedule(ctx context.Context, topic, member string, when When) (was State, placed Placed, err error) {
	r, err := s.run(ctx, rescheduleScript, topic, member, int64(when))
	if err != nil {
		return 0, Placed{}, err
	}
	if was = r.state(); was == Scheduled || was == Ready {
		now, broadcast := r.integer(), r.flag()
		placed = r.placed(now, broadcast)
	}
	return was, placed, r.end()
}
