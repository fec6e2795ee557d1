package calls

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const (
	pathSchedules = PathTopic + "/schedules"
	pathSchedule  = pathSchedules + "/{name}"
)

// ofSchedule is the input of a call about a schedule.
type ofSchedule struct {
	OfTopic
	Name string `path:"name" is:"schedule" maxLength:"90" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"daily" doc:"of the schedule"`
}

// shown returns a schedule as it is now.
func (in *ofSchedule) shown(ctx context.Context, s *Service) (api.Schedule, error) {
	shown, _, _, err := api.LookAtSchedule(ctx, s.Store, in.Topic, in.Name)
	return shown, err
}

type listSchedulesInput struct {
	OfTopic
	paged
}

var _ = define(Call{
	Name: "listSchedules", Method: "GET", Path: pathSchedules, Tag: TagOperate, Status: http.StatusOK, Reply: api.Schedules{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Summary: "List the schedules of a topic, a page at a time, in no order",
	Description: "A page may have some more than limit. A schedule that is there all the time is in a page, and may be in two.",
}, func(ctx context.Context, s *Service, r *Request, in *listSchedulesInput) (any, error) {
	if err := r.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	cursor, err := strconv.ParseUint(in.Cursor, 10, 64)
	if err != nil && in.Cursor != "" {
		return nil, fault.New("cursor", "cursor %.100q: it is none of a list of schedules; leave it out to begin anew", in.Cursor)
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	list := api.Schedules{Schedules: []api.Schedule{}}
	for {
		page, next, err := s.Store.Of(in.Topic).Schedules(ctx, in.Topic, cursor)
		if err != nil {
			return nil, err
		}
		for i := range page {
			one := api.ScheduleOf(&page[i].Schedule, page[i].State, now)
			if err := page[i].Err; err != nil {
				one.Error = err.Error()
			}
			list.Schedules = append(list.Schedules, one)
		}
		if cursor = next; cursor == 0 || len(list.Schedules) >= in.Limit {
			break
		}
	}
	if cursor != 0 {
		list.Cursor = strconv.FormatUint(cursor, 10)
	}
	return list, nil
})

var _ = define(Call{
	Name: "showSchedule", Method: "GET", Path: pathSchedule, Tag: TagOperate, Status: http.StatusOK, Reply: api.Schedule{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Show a schedule, when it fires next, and what it made last",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
	if err := r.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	return reply(in.shown(ctx, s))
})

type nextInput struct {
	ofSchedule
	N     int           `query:"n" minimum:"1" maximum:"1000" default:"5" doc:"how many times"`
	Cron  string        `query:"cron" maxLength:"512" example:"30 2 * * *" doc:"a rule to try out, see a put"`
	Every time.Duration `query:"every" shortest:"1s" longest:"87840h" example:"15m" doc:"or a pause to try out"`
	Zone  string        `query:"zone" is:"zone" example:"Europe/Berlin" doc:"time zone of cron, also to try another one with the rule that is there"`
	From  time.Time     `query:"from" example:"2030-01-01T00:00:00Z" doc:"as if it did not fire before"`
	Until time.Time     `query:"until" example:"2031-01-01T00:00:00Z" doc:"as if it did not fire after"`
}

// tried returns the schedule that is there with what is to be tried out, or one of a rule alone.
func (in *nextInput) tried(ctx context.Context, s *Service) (tried store.Schedule, state store.ScheduleState, err error) {
	if in.Cron != "" || in.Every != 0 {
		tried = store.Schedule{Topic: in.Topic, Name: in.Name, Spec: calendar.Spec{Cron: in.Cron, Every: in.Every}}
	} else if tried, state, _, err = s.Store.Of(in.Topic).Schedule(ctx, in.Topic, in.Name); err != nil {
		return tried, state, err
	}
	spec := &tried.Spec
	spec.Zone = cmp.Or(in.Zone, spec.Zone)
	if !in.From.IsZero() {
		spec.From = in.From
	}
	if !in.Until.IsZero() {
		spec.Until = in.Until
	}
	_, err = tried.Rule()
	return tried, state, err
}

var _ = define(Call{
	Name: "nextOfSchedule", Method: "GET", Path: pathSchedule + "/next", Tag: TagOperate, Status: http.StatusOK, Reply: api.ScheduleNext{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Tell when a schedule fires next, or would by another rule",
	Description: "With cron or every no schedule of the name needs to be there. One that is there has no times while it is paused, or at its end.",
}, func(ctx context.Context, s *Service, r *Request, in *nextInput) (any, error) {
	if err := r.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	tried, state, err := in.tried(ctx, s)
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	return reply(api.NextOf(&tried, &state, now, in.N), err)
})

var _ = define(Call{
	Name: "putSchedule", Method: "PUT", Path: pathSchedule, Tag: TagOperate, Status: http.StatusOK, Reply: api.SchedulePutReply{},
	NoNATS:  "its name stands in the path, and its subject has room for the topic alone",
	Request: api.SchedulePut{}, Rights: []Right{MaySchedule}, Errors: []int{413}, Summary: "Add a schedule, or change one: publish a message again and again",
	Description: "Occurrences are ordinary messages with the ids NAME~TIME, made ahead of their times by the elected carrier, each once. A change withdraws what was made ahead and waits as it was made, and goes on from now. One that is there as it is put stays as it is.",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
	if err := r.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	schedule, err := api.DecodeSchedule(in.Topic, in.Name, r.Body)
	if err != nil {
		return nil, err
	}
	outcome, _, err := s.Store.Of(in.Topic).PutSchedule(ctx, schedule, store.AnyRevision)
	if err != nil {
		return nil, err
	}
	shown, err := in.shown(ctx, s)
	return reply(api.SchedulePutReply{Outcome: string(outcome), Schedule: shown}, err)
})

var _ = define(Call{
	Name: "applySchedules", Method: "PUT", Path: pathSchedules, Tag: TagOperate, Status: http.StatusOK, Reply: api.SchedulesApplied{}, NATS: ByTopic, Lasts: true,
	Request: api.SchedulesApply{}, Rights: []Right{MaySchedule}, Errors: []int{413}, Summary: "Put all schedules of a topic, and delete others",
	Description: "All are judged before anything changes. A schedule that is there as it is put stays as it is, so any number of clients may apply the same, and repeat it wherever it was broken off. With prune the topic has these, and no others.",
}, func(ctx context.Context, s *Service, r *Request, in *OfTopic) (any, error) {
	if err := r.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	apply, err := api.DecodeApply(in.Topic, r.Body)
	if err != nil {
		return nil, err
	}
	done, err := s.Store.ApplySchedules(ctx, apply)
	return reply(api.SchedulesApplied{DryRun: apply.DryRun, Schedules: append([]store.Applied{}, done...)}, err)
})

// changing returns a call that changes a schedule.
func changing(change func(s store.Shard, ctx context.Context, topic, name string, revision int64) error) func(context.Context, *Service, *Request, *ofSchedule) (any, error) {
	return func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
		if err := r.AllowTopic(in.Topic); err != nil {
			return nil, err
		}
		return nil, change(s.Store.Of(in.Topic), ctx, in.Topic, in.Name, store.AnyRevision)
	}
}

var _ = define(Call{
	Name: "deleteSchedule", Method: "DELETE", Path: pathSchedule, Tag: TagOperate, Status: http.StatusNoContent, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Delete a schedule; what it made ahead is withdrawn",
}, changing(store.Shard.DeleteSchedule))

var _ = define(Call{
	Name: "pauseSchedule", Method: "POST", Path: pathSchedule + "/pause", Tag: TagOperate, Status: http.StatusNoContent, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Pause a schedule: what it made ahead is withdrawn, and what the pause skips is not missed",
}, changing(store.Shard.PauseSchedule))

var _ = define(Call{
	Name: "resumeSchedule", Method: "POST", Path: pathSchedule + "/resume", Tag: TagOperate, Status: http.StatusNoContent, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Have a schedule go on from now",
}, changing(store.Shard.ResumeSchedule))
