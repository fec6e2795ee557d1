package calls

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

var _ = define(Call{
	Name: "runSchedule", Method: "POST", Path: pathSchedule + "/run", Tag: TagOperate, Status: http.StatusCreated, Reply: api.Publication{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Publish the message of a schedule now, also while it is paused",
	Description: "Its id is NAME~TIME with the milliseconds of the call. It changes nothing else of the schedule, and waits where an occurrence would be dropped.",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
	id, placed, err := s.Store.Of(in.Topic).RunSchedule(ctx, in.Topic, in.Name)
	state := notify.Scheduled
	if placed.Ready {
		state = notify.Ready
	}
	return reply(api.PublicationOf(notify.Publication{Topic: in.Topic, ID: id, Due: placed.Due, State: cmp.Or(placed.State, state), Outcome: placed.Outcome}), err)
})

// Backfilled says what a backfill made.
type Backfilled struct {
	DryRun      bool         `json:"dry_run,omitempty" doc:"true: nothing was made, and this is what would be"`
	Made        int          `json:"made"`
	Taken       int          `json:"taken" doc:"how many had an id that was in use, and were left as they are"`
	Occurrences []Occurrence `json:"occurrences" nullable:"false" doc:"all of them, the oldest first"`
}

type backfillInput struct {
	ofSchedule
	From   time.Time `query:"from" required:"true" example:"2026-11-20T00:00:00Z" doc:"from this time on"`
	To     time.Time `query:"to" example:"2026-11-22T00:00:00Z" doc:"before this time, which is past; missing: up to now"`
	DryRun bool      `query:"dry_run" default:"false" doc:"true: make nothing, and answer what would be made"`
}

var _ = define(Call{
	Name: "backfillSchedule", Method: "POST", Path: pathSchedule + "/backfill", Tag: TagOperate, Status: http.StatusOK, Reply: Backfilled{}, NATS: ByTopic, Lasts: true,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Make the occurrences of a schedule between two times in the past, up to 1,000, due at once",
	Description: "They have their ordinary ids and headers, and are made the oldest first. An id that is in use is left as it is, and stays taken for an hour after the end of what a backfill made, so one that was broken off is made whole by repeating it. " +
		"It changes nothing else of the schedule, and its messages wait where an occurrence would be dropped.",
}, func(ctx context.Context, s *Service, r *Request, in *backfillInput) (any, error) {
	made, err := s.Store.Of(in.Topic).Backfill(ctx, store.Backfill{Topic: in.Topic, Name: in.Name, From: in.From, To: in.To, DryRun: in.DryRun})
	done, of := Backfilled{DryRun: in.DryRun, Occurrences: []Occurrence{}}, store.Schedule{Name: in.Name}
	for _, one := range made {
		if one.Taken {
			done.Taken++
		} else {
			done.Made++
		}
		done.Occurrences = append(done.Occurrences, Occurrence{At: one.At, ID: of.OccurrenceID(one.At), Due: one.Due, Taken: one.Taken})
	}
	return reply(done, err)
})
