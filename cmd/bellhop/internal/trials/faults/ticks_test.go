package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Ticks are the occurrences of a schedule that fires each second. Nobody claims them: what is in Redis at the end is all that was made.
const (
	ticksTopic = "ticks"
	ticks      = "tick"
	jitter     = 500 * time.Millisecond
)

// startTicks puts the schedule.
func (w *world) startTicks(ctx context.Context) error {
	_, _, err := w.store.Of(ticksTopic).PutSchedule(ctx, &store.Schedule{
		Topic: ticksTopic, Name: ticks, Spec: calendar.Spec{Every: time.Second}, Jitter: jitter, Message: notify.Record{Body: []byte("x")},
	}, store.AnyRevision)
	return err
}

// endTicks checks that each second since the schedule was put has one occurrence, or counts as missed, and removes them. None was made twice,
// but by a call that stopped half way, where a right was taken away.
func (w *world) endTicks(ctx context.Context, halved bool) error {
	shard := w.store.Of(ticksTopic)
	var state store.ScheduleState
	err := until("each second is made", func() bool {
		var now time.Time
		var err error
		_, state, now, err = shard.Schedule(ctx, ticksTopic, ticks)
		return err == nil && state.Cursor.After(now)
	})
	if err != nil {
		return err
	}
	if err := shard.PauseSchedule(ctx, ticksTopic, ticks, store.AnyRevision); err != nil {
		return err
	}
	if _, state, _, err = shard.Schedule(ctx, ticksTopic, ticks); err != nil {
		return err
	}
	held, err := w.takeTicks(ctx)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		return errors.New("a schedule made nothing")
	}
	first, last, n := held[0], held[len(held)-1], int64(len(held))
	switch seconds := int64(last.Sub(first)/time.Second) + 1; {
	case n+state.Missed != seconds:
		return fmt.Errorf("a schedule: of %d seconds from %v to %v there are %d, and %d were missed", seconds, first, last, n, state.Missed)
	case (state.Taken > 0 || state.Made != n) && !halved:
		return fmt.Errorf("a schedule: %d seconds are there, and made were %d, and again %d", n, state.Made, state.Taken)
	}
	return shard.DeleteSchedule(ctx, ticksTopic, ticks, store.AnyRevision)
}

// takeTicks cancels all ticks, and returns their times, in order. None is due before its time, which the jitter puts off.
func (w *world) takeTicks(ctx context.Context) (all []time.Time, err error) {
	publisher, err := notify.NewPublisher(w.store)
	if err != nil {
		return nil, err
	}
	keys := w.store.KeysOf(ticksTopic)
	for _, place := range []string{keys.Scheduled(ticksTopic), keys.Ready(ticksTopic)} {
		members, err := w.store.Client().ZRangeWithScores(ctx, place, 0, -1).Result()
		if err != nil {
			return nil, err
		}
		for _, one := range members {
			member := one.Member.(string)
			_, id, err := record.SplitMember(member)
			if err != nil {
				return nil, err
			}
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(id, ticks+"~"))
			if err != nil {
				return nil, err
			}
			if due := time.UnixMilli(int64(one.Score)); due.Before(at.Add(record.Spread(member, jitter))) {
				return nil, fmt.Errorf("%s is due %v, %v early", member, due, at.Add(record.Spread(member, jitter)).Sub(due))
			}
			if _, err := publisher.Cancel(ctx, ticksTopic, id); err != nil {
				return nil, fmt.Errorf("cancel %s: %w", member, err)
			}
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all, nil
}
