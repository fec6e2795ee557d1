package calls

import (
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
)

var _ = define(Call{
	Name: "runSchedule", Method: "POST", Path: pathSchedule + "/run", Tag: TagOperate, Status: http.StatusCreated, Reply: api.Publication{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Publish the message of a schedule now, also while it is paused",
	Description: "Its id is NAME~TIME with the milliseconds of the call. It changes nothing else of the schedule, and waits where an occurrence would be dropped.",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
	p, err := api.RunSchedule(ctx, s.Store, in.Topic, in.Name)
	return reply(api.PublicationOf(p), err)
})

type backfillInput struct {
	ofSchedule
	From   time.Time `query:"from" required:"true" example:"2026-11-20T00:00:00Z" doc:"from this time on"`
	To     time.Time `query:"to" example:"2026-11-22T00:00:00Z" doc:"before this time, which is past; missing: up to now"`
	DryRun bool      `query:"dry_run" default:"false" doc:"true: make nothing, and answer what would be made"`
}

var _ = define(Call{
	Name: "backfillSchedule", Method: "POST", Path: pathSchedule + "/backfill", Tag: TagOperate, Status: http.StatusOK, Reply: api.Backfilled{}, NATS: ByTopic, Lasts: true,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Make the occurrences of a schedule between two times in the past, up to 1,000, due at once",
	Description: "They have their ordinary ids and headers, and are made the oldest first. An id that is in use is left as it is, and stays taken for an hour after the end of what a backfill made, so one that was broken off is made whole by repeating it. " +
		"It changes nothing else of the schedule, and its messages wait where an occurrence would be dropped.",
}, func(ctx context.Context, s *Service, r *Request, in *backfillInput) (any, error) {
	return reply(api.BackfillSchedule(ctx, s.Store, store.Backfill{Topic: in.Topic, Name: in.Name, From: in.From, To: in.To, DryRun: in.DryRun}))
})
