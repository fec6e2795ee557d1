package calls

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

type forecastInput struct {
	Topic  string `query:"topic" is:"pattern" maxLength:"128" pattern:"^(\\$dead\\.)?(([A-Za-z0-9_-]+|\\*)(\\.([A-Za-z0-9_-]+|\\*))*(\\.>)?|>)$" example:"order.*" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more; missing: all topics that the token permits"`
	Bucket string `query:"bucket" enum:"1m,1h,1d" default:"1h" doc:"length of a bucket"`
	Count  int    `query:"count" minimum:"1" maximum:"1000" default:"24" doc:"number of buckets"`
}

var _ = define(Call{
	Name: "forecast", Method: "GET", Path: "/v1/forecast", Tag: TagOperate, Status: http.StatusOK, Reply: api.Forecast{}, NATS: Plain,
	Summary:     "Count scheduled messages by when they fall due",
	Description: "The first bucket is the current minute, hour or day of UTC, by the clock of Redis. An answer is kept for 10 s, of very many topics for up to a minute.",
}, func(ctx context.Context, s *Service, r *Request, in *forecastInput) (any, error) {
	topics, err := r.topicsLike(in.Topic)
	if err != nil {
		return nil, err
	}
	bucket, _ := forecast.ParseBucket(in.Bucket) // the parameter permits no other
	f, err := s.Forecasts.Of(ctx, forecast.Options{Topics: topics, Bucket: bucket, Count: in.Count})
	missing, err := api.MissingOf(err)
	return reply(api.ForecastOf(f, missing), err)
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
	Name: "history", Method: "GET", Path: "/v1/history", Tag: TagOperate, Status: http.StatusOK, Reply: api.History{}, NATS: Plain,
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
	return api.HistoryOf(step, history.In(step, samples), missing), nil
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
