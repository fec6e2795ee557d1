package store

import (
	"context"
	"errors"
	"reflect"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// ExportPushes returns all pushes, with their secrets, and how many are foreign and cannot be read, from the shard that is Home. The error
// is that of the connection.
func (s Shard) ExportPushes(ctx context.Context) (all []Push, foreign int, err error) {
	all, _, foreign, err = s.pushes(ctx)
	return all, foreign, err
}

// errSamePush ends a change that changes nothing.
var errSamePush = errors.New("the push is there as it is restored")

// RestorePush restores a push of an export, paused if it was, in the shard that is Home. One that is here as it was there stays as it is, also where
// it is paused or fails, and the outcome is OutcomeKept. Errors: a Fault also where another push has its name, or a topic that it can match; else as
// ChangePush.
func (s Shard) RestorePush(ctx context.Context, p Push) (Outcome, error) {
	err := s.ChangePush(ctx, p.Name, func(before *Push) (*Push, error) {
		restored := p.withDefaults()
		restored.Failing, restored.Closed = nil, nil
		if before == nil {
			return &restored, nil
		}
		restored.Paused, restored.Failing, restored.Closed = before.Paused, before.Failing, before.Closed
		if !reflect.DeepEqual(restored, *before) {
			return nil, fault.New("name", "name %s: another push has this name, which stays; delete that one, or leave this out", p.Name)
		}
		return nil, errSamePush
	})
	switch {
	case errors.Is(err, errSamePush):
		return OutcomeKept, nil
	case err != nil:
		return OutcomeRefused, err
	}
	return OutcomeCreated, nil
}
