package calls

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

type forecastInput struct {
	Topic  string `query:"topic" is:"pattern" maxLength:"134" pattern:"^(\\$dead\\.)?(([A-Za-z0-9_-]+|\\*)(\\.([A-Za-z0-9_-]+|\\*))*(\\.>)?|>|[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*@[A-Za-z0-9_-]+)$" example:"order.*" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more; missing: all topics that the token permits"`
	Bucket string `query:"bucket" enum:"1m,1h,1d" default:"1h" doc:"length of a bucket"`
	Count  int    `query:"count" minimum:"1" maximum:"1000" default:"24" doc:"number of buckets"`
}

var _ = define(Call{
	Name: "forecast", Method: "GET", Path: "/v1/forecast", Tag: TagOperate, Status: http.StatusOK, Reply: Forecast{}, NATS: Plain,
	Summary:     "Count scheduled messages by when they fall due",
	Description: "The first bucket is the current minute, hour or day of UTC, by the clock of Redis. An answer is kept for 10 s, of very many topics for up to a minute.",
}, func(ctx context.Context, s *Service, r *Request, in *forecastInput) (any, error) {
	topics, err := r.topicsLike(in.Topic)
	if err != nil {
		return nil, err
	}
	bucket, _ := forecast.ParseBucket(in.Bucket) // the parameter permits no other
	f, err := s.Forecasts.Of(ctx, forecast.Options{Topics: topics, Bucket: bucket, Count: in.Count, Zone: s.Zone})
	missing, err := api.MissingOf(err)
	return reply(forecastOf(f, missing), err)
})

// topicsLike returns the pattern of a request, or those of the client if there is none.
func (c *Client) topicsLike(pattern string) ([]notify.Pattern, error) {
	if pattern == "" {
		return c.Patterns, nil
	}
	p, err := notify.ParsePattern(pattern)
	return []notify.Pattern{p}, err
}

// How many samples one answer has at most, and if its caller chooses no step, or no time.
const (
	mostSteps  = 1000
	usualSteps = 300
)

type historyInput struct {
	From fields.Moment `query:"from" example:"2030-01-02T00:00:00Z" doc:"from then on: a time, or how long ago, such as 24h; missing: an hour before to, or 300 steps if step is given"`
	To   fields.Moment `query:"to" example:"2030-01-02T01:00:00Z" doc:"until before that: a time, or how long ago; missing: until now"`
	Step time.Duration `query:"step" shortest:"1s" longest:"168h" example:"1m" doc:"time that a sample covers, at most 1,000 of them; missing: about a 300th of the time asked for"`
}

// span returns the time that is asked for. What is to come has no history.
func (in *historyInput) span(now time.Time) (from, to time.Time) {
	told := func() (time.Time, error) { return now, nil }
	from, _ = in.From.Time(told)
	to, _ = in.To.Time(told)
	if to.IsZero() {
		to = now
		if !from.Before(now) {
			to = from.Add(time.Second)
		}
	}
	if from.IsZero() {
		from = to.Add(-min(cmp.Or(in.Step*usualSteps, history.Fine), history.Whole))
	}
	return from, to
}

var _ = define(Call{
	Name: "history", Method: "GET", Path: "/v1/history", Tag: TagOperate, Status: http.StatusOK, Reply: History{}, NATS: Plain,
	Rights: []Right{MayAdmin}, Summary: "Get how many messages were published, claimed and acknowledged in the past, and how late they were claimed",
	Description: "The token must permit all topics. The past is noted by second for an hour, and by minute for a week; not with BELLHOP_CONSOLE=false.",
}, func(ctx context.Context, s *Service, r *Request, in *historyInput) (any, error) {
	if err := r.AllowAll(); err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, to := in.span(now)
	step := cmp.Or(in.Step, stepOf(to.Sub(from)))
	if step < to.Sub(from)/mostSteps {
		return nil, fault.New("step", "step %s: these are more than %d samples; use a longer step, or a shorter time", fault.Short(step), mostSteps)
	}
	samples, err := history.Read(ctx, s.Store, from, to)
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return historyOf(step, history.In(step, samples), missing), nil
})

// steps are those that a plot may have unless its caller chooses one.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// stepOf returns a step of which a time has at most usualSteps.
func stepOf(span time.Duration) time.Duration {
	for _, step := range steps {
		if span/step <= usualSteps {
			return step
		}
	}
	return span / usualSteps
}

// Forecast is how many scheduled messages fall due when.
type Forecast struct {
	From       time.Time `json:"from" doc:"beginning of the first bucket, in which now is, by the clock of Redis"`
	BucketMs   int64     `json:"bucket_ms" doc:"length of a bucket" example:"3600000"`
	Counts     []int64   `json:"counts" nullable:"false" doc:"messages that fall due within each bucket; in the first, from now on"`
	Broadcasts []int64   `json:"broadcasts,omitempty" doc:"broadcasts that fall due within each bucket, of all topics; missing: not all topics were asked for"`
	Overdue    int64     `json:"overdue" doc:"messages that are due already, and that the carrier did not make ready yet"`
	Later      int64     `json:"later" doc:"messages that fall due behind the last bucket"`

	Recurring      []int64   `json:"recurring,omitempty" doc:"occurrences of schedules that fall due within each bucket and are not made yet, at most 1,000 of a schedule, fewer of each if there are more than 500; the next ones are counted as messages or broadcasts already; missing: there are no schedules"`
	RecurringUntil time.Time `json:"recurring_until,omitzero" doc:"until when recurring has all; missing: it does to the end"`
	SchedulesLeft  bool      `json:"schedules_left,omitempty" doc:"true: recurring has those 10,000 schedules that fire first, and there are others"`
	api.Missing
}

// forecastOf returns a forecast in its JSON form, with the shards that are missing.
func forecastOf(f forecast.Forecast, missing api.Missing) Forecast {
	return Forecast{
		From: f.From.UTC(), BucketMs: api.Ms(f.Bucket), Counts: f.Counts, Broadcasts: f.Broadcasts, Overdue: f.Overdue, Later: f.Later,
		Recurring: f.Recurring, RecurringUntil: f.RecurringUntil, SchedulesLeft: f.SchedulesLeft, Missing: missing,
	}
}

// History is what happened in steps of time.
type History struct {
	StepMs  int64    `json:"step_ms" doc:"time that a sample covers" example:"60000"`
	Samples []Sample `json:"samples" nullable:"false" doc:"the oldest first; there is none of a time of which nothing was noted"`
	api.Missing
}

// Sample is what happened in one step: how many in each second, and how late.
type Sample struct {
	Time    time.Time `json:"time" doc:"when the step begins"`
	NotedMs int64     `json:"noted_ms" doc:"how much of the step was noted" example:"60000"`

	Published float64 `json:"published_per_s" doc:"messages published, not broadcasts"`
	Claimed   float64 `json:"claimed_per_s" doc:"messages handed out"`
	Acked     float64 `json:"acked_per_s"`
	Died      float64 `json:"died_per_s"`

	P50Ms *float64 `json:"p50_ms,omitempty" doc:"half of those handed out were at most so late, from due to claimed, less the min_age of the claim; missing: none was. It is less than 42 % off" example:"0.4"`
	P99Ms *float64 `json:"p99_ms,omitempty" doc:"the same of 99 of 100" example:"2.5"`
}

// historyOf returns samples of some step in their JSON form, with the shards that are missing.
func historyOf(step time.Duration, samples []history.Sample, missing api.Missing) History {
	h := History{StepMs: api.Ms(step), Samples: make([]Sample, len(samples)), Missing: missing}
	for i, s := range samples {
		h.Samples[i] = Sample{
			Time: s.Time.UTC(), NotedMs: api.Ms(s.Noted),
			Published: s.PerSecond(s.Published), Claimed: s.PerSecond(s.Claimed), Acked: s.PerSecond(s.Acked), Died: s.PerSecond(s.Died),
		}
		if s.Late.Sum() > 0 {
			h.Samples[i].P50Ms, h.Samples[i].P99Ms = quantileMs(s, 0.5), quantileMs(s, 0.99)
		}
	}
	return h
}

// quantileMs returns a quantile of lateness in ms, to the microsecond.
func quantileMs(s history.Sample, p float64) *float64 {
	ms := float64(s.Late.Quantile(p).Microseconds()) / 1000
	return &ms
}
