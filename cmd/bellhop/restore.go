package main

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A restored is a line of an export that is a schedule or a push. All are restored behind the messages: a schedule goes on behind what it made, and
// a push finds the messages of its topics in their order.
type restored struct {
	line     int
	schedule calls.ScheduleLine
	push     *store.Push
}

// parseRestored reads a line of a kind.
func parseRestored(line int, kind string, text []byte, maxBody int) (restored, error) {
	r := restored{line: line}
	switch kind {
	case store.KindPush:
		p, err := calls.DecodePushLine(text)
		r.push = &p
		return r, err
	case store.KindSchedule:
		var err error
		if r.schedule, err = calls.DecodeScheduleLine(text); err != nil {
			return r, err
		}
		if r.schedule.Restore == nil {
			return r, fault.New("restore", "restore: it is missing; use bellhop schedule apply for a schedule that is to begin anew")
		}
		return r, calls.CheckBody(r.schedule.Schedule, maxBody)
	}
	return r, fault.New("kind", "kind %.40q: use %s or %s, and leave it out for a message", kind, store.KindSchedule, store.KindPush)
}

// restore restores it.
func (r *restored) restore(ctx context.Context, s *session) (store.Outcome, error) {
	if r.push == nil {
		return s.store.Of(r.schedule.Topic).RestoreSchedule(ctx, r.schedule.Schedule, r.schedule.Restore)
	}
	if err := s.config.Nats(s.log).CheckSubject(r.push.Subject(">")); r.push.IsNATS() && err != nil {
		return store.OutcomeRefused, err
	}
	return s.store.Home().RestorePush(ctx, *r.push)
}

// restoreAll restores the schedules and the pushes of the file. It may be repeated.
func (b *bulk) restoreAll(ctx context.Context) error {
	for i := range b.later {
		outcome, err := b.later[i].restore(ctx, b.session)
		switch {
		case err == nil && outcome == store.OutcomeKept:
			b.unchanged++
		case err == nil:
			b.restored++
		case refusesLine(err):
			b.refuse(b.later[i].line, err)
		default:
			return fmt.Errorf("%w\nof %d schedules and pushes %d are restored; publish the file again", err, len(b.later), i)
		}
	}
	return nil
}
