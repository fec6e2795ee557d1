package api

import (
	"cmp"
	"context"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// RunSchedule publishes the message of a schedule now. Errors are those of store.Shard.RunSchedule.
func RunSchedule(ctx context.Context, s *notify.Store, topic, name string) (notify.Publication, error) {
	id, placed, err := s.Of(topic).RunSchedule(ctx, topic, name)
	state := notify.Scheduled
	if placed.Ready {
		state = notify.Ready
	}
	return notify.Publication{Topic: topic, ID: id, Due: placed.Due, State: cmp.Or(placed.State, state), Outcome: placed.Outcome}, err
}

// Backfilled says what a backfill made.
type Backfilled struct {
	DryRun      bool         `json:"dry_run,omitempty" doc:"true: nothing was made, and this is what would be"`
	Made        int          `json:"made"`
	Taken       int          `json:"taken" doc:"how many had an id that was in use, and were left as they are"`
	Occurrences []Occurrence `json:"occurrences" nullable:"false" doc:"all of them, the oldest first"`
}

// BackfillSchedule makes the occurrences of a schedule between two times in the past. Errors are those of store.Shard.Backfill.
func BackfillSchedule(ctx context.Context, s *notify.Store, b store.Backfill) (Backfilled, error) {
	made, err := s.Of(b.Topic).Backfill(ctx, b)
	done, of := Backfilled{DryRun: b.DryRun, Occurrences: []Occurrence{}}, store.Schedule{Name: b.Name}
	for _, one := range made {
		if one.Taken {
			done.Taken++
		} else {
			done.Made++
		}
		done.Occurrences = append(done.Occurrences, Occurrence{At: one.At, ID: of.OccurrenceID(one.At), Due: one.Due, Taken: one.Taken})
	}
	return done, err
}
