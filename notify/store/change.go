package store

import (
	"context"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	cancelScript     = script.New("cancel", script.Promised)
	rescheduleScript = script.New("reschedule", script.Promised)
	stopScript       = script.New("stop")
)

// CancelOptions are the options of a cancellation. The zero value is the default.
type CancelOptions struct {
	// Stop has a leased message cancelled, too: whoever has it is told to stop, and it is
	// cancelled when its lease ends in any way but an acknowledgement.
	Stop bool
}

// ErrCancelled is why the work on a leased message is to end: somebody cancelled it, and
// asked for a stop. A handler's context ends with it, and so fails an extension of the
// lease, which goes on as it is.
var ErrCancelled = errors.New("the message is cancelled, and the work on it is to stop")

// Cancel removes a message with its successor, or a broadcast that waits, and returns
// the state that it had: if that is Leased nothing was changed; if it is Done the id
// was freed; 0 means that there is none. Errors: ErrUnreplicated, or that of the
// connection.
func (s Shard) Cancel(ctx context.Context, topic, member string) (record.State, error) {
	return s.cancel(ctx, topic, member)
}

// CancelWaiting is Cancel for a message that is Scheduled or Ready: of another state it
// changes nothing, and returns Leased or 0. So it does of one that was published at another
// time than published, unless that is zero.
func (s Shard) CancelWaiting(ctx context.Context, topic, member string, published time.Time) (record.State, error) {
	return s.cancel(ctx, topic, member, 2, msOrAny(published))
}

// Stop is Cancel for a message that is leased, too: it is marked, the worker that has it
// is told, and the state is Leased. It is cancelled when the lease ends in any way but an
// acknowledgement; until then no extension succeeds. Where the worker does not hear of that,
// its next extension says so. Stop may be repeated.
func (s Shard) Stop(ctx context.Context, topic, member string) (record.State, error) {
	return s.stop(ctx, topic, member, 3, time.Time{})
}

// StopWaiting is Stop for a message that is Scheduled, Ready, Blocked or Leased: of another
// state it changes nothing, and returns 0. Published is that of CancelWaiting.
func (s Shard) StopWaiting(ctx context.Context, topic, member string, published time.Time) (record.State, error) {
	return s.stop(ctx, topic, member, 4, published)
}

func (s Shard) stop(ctx context.Context, topic, member string, what int, published time.Time) (record.State, error) {
	r, err := s.Run(ctx, cancelScript, topic, member, what, msOrAny(published))
	if err != nil {
		return 0, err
	}
	state, worker := r.State(), ""
	if state == record.Leased {
		worker = r.Text()
	}
	if err := r.End(); err != nil || worker == "" {
		return state, err
	}
	_ = s.store.Home().tellToStop(ctx, worker, member)
	return state, nil
}

// tellToStop tells the workers of a name to stop the work on a message. The error is that of the connection.
func (s Shard) tellToStop(ctx context.Context, worker, member string) error {
	begins, err := beginningOf(worker)
	if err != nil {
		return err
	}
	for cursor := "0"; ; {
		r, err := s.Run(ctx, stopScript, cursor, scanPage, begins, member)
		if err != nil {
			return err
		}
		cursor = r.Text()
		if err := r.End(); err != nil || cursor == "0" {
			return err
		}
	}
}

// CancelNext removes the successor of a message alone. It reports whether there was
// one. The errors are those of Cancel.
func (s Shard) CancelNext(ctx context.Context, topic, member string) (bool, error) {
	state, err := s.cancel(ctx, topic, member, 1)
	return state != 0, err
}

func (s Shard) cancel(ctx context.Context, args ...any) (record.State, error) {
	r, err := s.Run(ctx, cancelScript, args...)
	if err != nil {
		return 0, err
	}
	state := r.State()
	return state, r.End()
}

// Reschedule changes the due time of a Scheduled, Ready or Blocked message, or of a broadcast
// that waits. It returns the state that the message had, and its new place: if the
// state is Leased or Dead nothing was changed; 0 means that there is none, or that it was
// published at another time than published, unless that is zero. The only
// Refusal is TooLate. Errors: ErrUnreplicated, or that of the connection.
func (s Shard) Reschedule(
	ctx context.Context, topic, member string, when When, published time.Time,
) (was record.State, placed Placed, err error) {
	r, err := s.Run(ctx, rescheduleScript, topic, member, int64(when), msOrAny(published))
	if err != nil {
		return 0, Placed{}, err
	}
	if was = r.State(); was == record.Scheduled || was == record.Ready || was == record.Blocked {
		now, broadcast := r.Integer(), r.Flag()
		placed = placedIn(r, now, broadcast)
		if !broadcast && r.Flag() {
			placed.State = record.Blocked
		}
	}
	return was, placed, r.End()
}
