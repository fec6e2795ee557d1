package calls

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
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

// shown returns a schedule as it is now, with what became of its last occurrences.
func (in *ofSchedule) shown(ctx context.Context, s *Service) (shown Schedule, err error) {
	shard := s.Store.Of(in.Topic)
	schedule, state, _, err := shard.Schedule(ctx, in.Topic, in.Name)
	if err != nil {
		return shown, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return shown, err
	}
	shown = ScheduleOf(&schedule, state, now)
	looks, err := shard.Occurrences(ctx, &schedule, &state)
	shown.Note(looks)
	return shown, err
}

type listSchedulesInput struct {
	OfTopic
	paged
}

// How much a page of schedules has at the most.
const (
	scheduleBodies = 4 << 20     // bytes of bodies, beside its first one
	listedFor      = time.Second // of reading, where few are of topics that the token permits
)

var _ = define(Call{
	Name: "listSchedules", Method: "GET", Path: pathSchedules, Tag: TagOperate, Status: http.StatusOK, Reply: Schedules{}, NATS: ByTopic, Long: true,
	Rights: []Right{MaySchedule}, Summary: "List the schedules of a topic, a page at a time, in no order",
	Description: "A schedule that is there all the time is in a page, and may be in several: after a restart of Redis the list begins anew.",
}, func(ctx context.Context, s *Service, r *Request, in *listSchedulesInput) (any, error) {
	return reply(listSchedules(ctx, s, r, in.Topic, in.paged, []store.Shard{s.Store.Of(in.Topic)}))
})

var _ = define(Call{
	Name: "listAllSchedules", Method: "GET", Path: "/v1/schedules", Tag: TagOperate, Status: http.StatusOK, Reply: Schedules{}, NATS: Plain, Long: true,
	Rights: []Right{MaySchedule}, Summary: "List the schedules of all topics, a page at a time, in no order",
	Description: "A token gets those of the topics that it permits. A page may have fewer than asked for, or none: the list goes on as long as there is a cursor. As of one topic, a schedule may be in several pages.",
}, func(ctx context.Context, s *Service, r *Request, in *paged) (any, error) {
	shards, err := s.Store.Shards(ctx)
	if err != nil {
		return nil, err
	}
	return reply(listSchedules(ctx, s, r, "", *in, shards))
})

// listSchedules returns a page of the schedules of a topic, or of all topics that the client may see, in some shards.
func listSchedules(ctx context.Context, s *Service, r *Request, topic string, in paged, shards []store.Shard) (list Schedules, err error) {
	from, err := parsePlace(in.Cursor, len(shards))
	if err != nil {
		return list, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return list, err
	}
	room := int64(scheduleBodies)
	if r.Room > 0 {
		room = min(room, r.Room)
	}
	list.Schedules = []Schedule{}
	began := time.Now()
	for more := true; more && list.Cursor == ""; {
		page, next, err := shards[from.shard].Schedules(ctx, topic, from.cursor)
		if err != nil {
			return list, err
		}
		page = permitted(r, page)
		for i := from.listedOf(page); i < len(page); i++ {
			size := int64(len(page[i].Schedule.Message.Body))
			if n := len(list.Schedules); n >= in.Limit || n > 0 && size > room {
				list.Cursor = from.behind(page[:i]).String()
				break
			}
			room -= size
			list.Schedules = append(list.Schedules, ListedOf(&page[i], now))
		}
		from, more = from.next(next, len(shards))
		if isFull := len(list.Schedules) >= in.Limit || room <= 0 || time.Since(began) > listedFor; more && isFull && list.Cursor == "" {
			list.Cursor = from.String()
		}
	}
	r.Most = len(list.Schedules)
	return list, nil
}

// permitted returns those of a page of schedules, by topic and name, that a client may see.
func permitted(r *Request, page []store.Listed) []store.Listed {
	if may := r.May(); may != nil {
		page = slices.DeleteFunc(page, func(l store.Listed) bool { return !may(l.Schedule.Topic) })
	}
	slices.SortFunc(page, func(a, b store.Listed) int { return strings.Compare(memberOf(&a), memberOf(&b)) })
	return page
}

// memberOf returns the name of a schedule among those of all topics.
func memberOf(l *store.Listed) string { return record.Member(l.Schedule.Topic, l.Schedule.Name) }

// A place is where a list of schedules goes on: in a page of a shard, whose schedules by their names are listed up to one.
type place struct {
	shard  int    // its index among those that are listed
	cursor string // of the page
	listed uint64 // how many are
	sum    uint64 // of their names
}

// parsePlace reads what String wrote of so many shards, or nothing.
func parsePlace(text string, shards int) (place, error) {
	if text == "" {
		return place{}, nil
	}
	m := places.FindStringSubmatch(text)
	shard := 0
	if m != nil {
		shard, _ = strconv.Atoi(m[1])                                                 // zero if there is none
		if _, err := strconv.ParseUint(m[3], 10, 64); err != nil || shard >= shards { // Redis would refuse it
			m = nil
		}
	}
	if m == nil {
		return place{}, fault.New("cursor", "cursor %.100q: it is none of a list of schedules; leave it out to begin anew", text)
	}
	listed, _ := strconv.ParseUint(m[4], 10, 64)
	sum, _ := strconv.ParseUint(m[5], 10, 64)
	return place{shard, m[2], listed, sum}, nil
}

// places matches what String wrote.
var places = regexp.MustCompile(`^(?:(\d+)s)?((\d+)(?:_[0-9a-f]*)?)(?:-(\d+)-(\d+))?$`)

func (p place) String() string {
	text := cmp.Or(p.cursor, "0")
	if p.shard > 0 {
		text = fmt.Sprintf("%ds%s", p.shard, text)
	}
	if p.listed == 0 {
		return text
	}
	return fmt.Sprintf("%s-%d-%d", text, p.listed, p.sum)
}

// next returns the place behind its page, which has the cursor of the next one, among so many shards; false: that was the last.
func (p place) next(cursor string, shards int) (place, bool) {
	if cursor != "" {
		return place{shard: p.shard, cursor: cursor}, true
	}
	return place{shard: p.shard + 1}, p.shard+1 < shards
}

// behind returns the place behind the first schedules of its page.
func (p place) behind(first []store.Listed) place {
	sum := fnv.New64a()
	for i := range first {
		_, _ = sum.Write([]byte(memberOf(&first[i]) + "\n")) // a hash has no errors
	}
	return place{p.shard, p.cursor, uint64(len(first)), sum.Sum64()}
}

// listedOf returns how many of its page were listed: none if the page begins with others now, which is then listed anew.
func (p place) listedOf(page []store.Listed) int {
	if p.listed > uint64(len(page)) || p != p.behind(page[:p.listed]) {
		return 0
	}
	return int(p.listed)
}

var _ = define(Call{
	Name: "showSchedule", Method: "GET", Path: pathSchedule, Tag: TagOperate, Status: http.StatusOK, Reply: Schedule{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Show a schedule, when it fires next, and what it made last",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
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
	Name: "nextOfSchedule", Method: "GET", Path: pathSchedule + "/next", Tag: TagOperate, Status: http.StatusOK, Reply: ScheduleNext{}, NATS: ByTopic,
	Rights: []Right{MaySchedule}, Errors: []int{404}, Summary: "Tell when a schedule fires next, or would by another rule",
	Description: "With cron or every no schedule of the name needs to be there. One that is there has no times while it is paused, or at its end.",
}, func(ctx context.Context, s *Service, r *Request, in *nextInput) (any, error) {
	tried, state, err := in.tried(ctx, s)
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	return reply(NextOf(&tried, &state, now, in.N), err)
})

var _ = define(Call{
	Name: "putSchedule", Method: "PUT", Path: pathSchedule, Tag: TagOperate, Status: http.StatusOK, Reply: SchedulePutReply{},
	NoNATS:  "its name stands in the path, and its subject has room for the topic alone",
	Request: SchedulePut{}, Rights: []Right{MaySchedule}, Errors: []int{413}, Summary: "Add a schedule, or change one: publish a message again and again",
	Description: "Occurrences are ordinary messages with the ids NAME~TIME, made ahead of their times by the elected carrier, each once. A change withdraws what was made ahead and waits as it was made, and goes on from now. One that is there as it is put stays as it is.",
}, func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
	schedule, err := decodeSchedule(in.Topic, in.Name, r.Body)
	if err != nil {
		return nil, err
	}
	outcome, err := s.PutSchedule(ctx, schedule, store.AnyRevision)
	if err != nil {
		return nil, err
	}
	shown, err := in.shown(ctx, s)
	return reply(SchedulePutReply{Outcome: string(outcome), Schedule: shown}, err)
})

// PutSchedule is [store.Shard.PutSchedule] for a schedule whose body is none too large for the daemon.
func (s *Service) PutSchedule(ctx context.Context, schedule *store.Schedule, revision int64) (store.Outcome, error) {
	if err := CheckBody(schedule, cmp.Or(s.MaxBody, notify.DefaultMaxBody)); err != nil {
		return store.OutcomeRefused, err
	}
	outcome, _, err := s.Store.Of(schedule.Topic).PutSchedule(ctx, schedule, revision)
	return outcome, err
}

var _ = define(Call{
	Name: "applySchedules", Method: "PUT", Path: pathSchedules, Tag: TagOperate, Status: http.StatusOK, Reply: SchedulesApplied{}, NATS: ByTopic, Lasts: true, Lists: true,
	Request: SchedulesApply{}, Rights: []Right{MaySchedule}, Errors: []int{413}, Summary: "Put all schedules of a topic, and delete others",
	Description: "All are judged before anything changes. A schedule that is there as it is put stays as it is, so any number of clients may apply the same, and repeat it wherever it was broken off. With prune the topic has these, and no others. The list has up to 10,000 schedules and 1 MiB, and over NATS max_payload if that is less.",
}, func(ctx context.Context, s *Service, r *Request, in *OfTopic) (any, error) {
	apply, err := decodeApply(ctx, in.Topic, r.Body, cmp.Or(s.MaxBody, notify.DefaultMaxBody))
	if err != nil {
		return nil, err
	}
	done, err := s.Store.ApplySchedules(ctx, apply)
	return reply(SchedulesApplied{DryRun: apply.DryRun, Schedules: append([]store.Applied{}, done...)}, err)
})

// changing returns a call that changes a schedule.
func changing(change func(s store.Shard, ctx context.Context, topic, name string, revision int64) error) func(context.Context, *Service, *Request, *ofSchedule) (any, error) {
	return func(ctx context.Context, s *Service, r *Request, in *ofSchedule) (any, error) {
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
