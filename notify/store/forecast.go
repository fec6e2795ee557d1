package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var forecastScript = script.New("forecast")

// MaxEdges is the most edges of one call of Forecast.
const MaxEdges = 501

// Tallied is what a call counted.
type Tallied struct {
	Topics    int     // that were counted, at least one of some
	Schedules int     // of all topics of the shard
	Sums      []int64 // how many are due before the first edge, between each edge and the next, and at the last or later
}

// Forecast counts the scheduled messages of the first topics of some, of as many as take
// Redis about a millisecond; without topics, the broadcasts of all topics that wait.
// Edges are 2 to MaxEdges times in ms, ascending. The error is that of the connection.
func (s Shard) Forecast(ctx context.Context, edges []int64, topics []string) (Tallied, error) {
	return s.forecast(ctx, 0, edges, topics)
}

// Deaths is Forecast for the dead letters of some topics, by when they died.
func (s Shard) Deaths(ctx context.Context, edges []int64, topics []string) (Tallied, error) {
	return s.forecast(ctx, 1, edges, topics)
}

func (s Shard) forecast(ctx context.Context, ofDead int, edges []int64, topics []string) (t Tallied, err error) {
	args := append(make([]any, 0, 2+len(edges)+len(topics)), ofDead, len(edges))
	for _, edge := range edges {
		args = append(args, edge)
	}
	for _, topic := range topics {
		args = append(args, topic)
	}
	r, err := s.Run(ctx, forecastScript, args...)
	if err != nil {
		return Tallied{}, err
	}
	if len(topics) == 0 {
		t.Topics = int(r.Integer())
	} else {
		t.Topics = r.Index(len(topics)) + 1
	}
	t.Schedules = int(r.Integer())
	for range len(edges) + 1 {
		t.Sums = append(t.Sums, r.Integer())
	}
	return t, r.End()
}

// Scheduled returns a page of the topics that have a scheduled set, in no order, and where the
// next page begins: zero at the end. A topic that has one all the time is in a page, and
// may be in two. The error is that of the connection.
func (s Shard) Scheduled(ctx context.Context, cursor uint64) (topics []string, next uint64, err error) {
	found, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (scanned, error) {
		return scannedBy(r.ZScan(ctx, k.ScheduledTopics(), cursor, "", scanPage))
	})
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, 0, nil // a key of the wrong type, which Walk finds, holds no topic
	}
	if err != nil {
		return nil, 0, err
	}
	for i := 0; i < len(found.page); i += 2 { // its time behind it
		topics = append(topics, found.page[i])
	}
	return topics, found.next, nil
}
