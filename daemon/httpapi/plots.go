package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
)

// registerPlots registers the calls that answer with numbers over time.
func (g *Gate) registerPlots(mux *http.ServeMux, doc *huma.OpenAPI) {
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/forecast", id: "forecast", tag: tagOperate, status: http.StatusOK, reply: api.Forecast{}, summary: "Count scheduled messages by when they fall due",
		description: "The first bucket is the current minute, hour or day of UTC, by the clock of Redis. An answer is kept for 10 s, of very many topics for up to a minute.",
	}, g.forecast)
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/history", id: "history", tag: tagOperate, status: http.StatusOK, reply: api.History{},
		rights: []tokens.Right{tokens.MayAdmin}, summary: "Get how many messages were published, claimed and acknowledged in the past, and how late they were claimed",
		description: "The token must permit all topics. The past is noted by second for an hour, and by minute for a week; not with BELLHOP_CONSOLE=false.",
	}, g.history)
}

type forecastInput struct {
	Topic  string `query:"topic" is:"pattern" maxLength:"128" pattern:"^(\\$dead\\.)?(([A-Za-z0-9_-]+|\\*)(\\.([A-Za-z0-9_-]+|\\*))*(\\.>)?|>)$" example:"order.*" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more; missing: all topics that the token permits"`
	Bucket string `query:"bucket" enum:"1m,1h,1d" default:"1h" doc:"length of a bucket"`
	Count  int    `query:"count" minimum:"1" maximum:"1000" default:"24" doc:"number of buckets"`
}

// forecast counts what falls due of a topic, of those of a pattern, or of all that the token permits.
func (g *Gate) forecast(ctx context.Context, c *call, in *forecastInput) (any, error) {
	topics, err := c.topicsLike(in.Topic)
	if err != nil {
		return nil, err
	}
	bucket, _ := forecast.ParseBucket(in.Bucket) // the parameter permits no other
	f, err := g.forecasts.Of(ctx, forecast.Options{Topics: topics, Bucket: bucket, Count: in.Count})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return api.ForecastOf(f, missing), nil
}

// topicsLike returns the pattern, or those of the token if the pattern is empty, and checks that
// a request without a body is about topics that the token permits.
func (c *call) topicsLike(pattern string) ([]notify.Pattern, error) {
	if pattern == "" {
		return c.grant.Patterns, c.noBody()
	}
	if err := c.enterTopic(pattern); err != nil {
		return nil, err
	}
	p, err := notify.ParsePattern(pattern)
	return []notify.Pattern{p}, err
}
