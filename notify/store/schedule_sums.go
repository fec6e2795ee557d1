package store

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var scheduleSumsScript = script.New("schedule_sums")

// ScheduleSums sum up the schedules of a shard, or of several.
type ScheduleSums struct {
	Schedules int64
	Behind    time.Duration // for how long the carrier should have looked at the first of them
	Made      int64         // occurrences ever made, with those that were withdrawn later
	Missed    int64         // that never were
	Taken     int64         // whose id was in use
	Refused   int64         // times that one could not be made
	Unread    int64         // times that the carrier could not read a schedule
}

// ScheduleSums returns the sums of a shard. The error is that of the connection.
func (s Shard) ScheduleSums(ctx context.Context) (ScheduleSums, error) {
	r, err := s.Run(ctx, scheduleSumsScript)
	if err != nil {
		return ScheduleSums{}, err
	}
	sums := ScheduleSums{Schedules: r.Integer(), Behind: time.Duration(r.Integer()) * time.Millisecond}
	for _, n := range []*int64{&sums.Made, &sums.Missed, &sums.Taken, &sums.Refused, &sums.Unread} {
		*n = r.Decimal()
	}
	return sums, r.End()
}

// And returns the sums of this and that.
func (a ScheduleSums) And(b ScheduleSums) ScheduleSums {
	return ScheduleSums{
		a.Schedules + b.Schedules, max(a.Behind, b.Behind), a.Made + b.Made, a.Missed + b.Missed, a.Taken + b.Taken, a.Refused + b.Refused, a.Unread + b.Unread,
	}
}
