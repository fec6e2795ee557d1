package notify

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed topics.lua
var topicsSource string

var topicsScript = NewScript("topics", topicsSource)

// Counts are the messages of a topic.
type Counts struct {
	Topic     string        `json:"topic"`
	Scheduled int64         `json:"scheduled"`
	Ready     int64         `json:"ready"`
	Leased    int64         `json:"leased"`
	Dead      int64         `json:"dead"`
	Waiting   int64         `json:"waiting"`   // subscribers with free hands
	Published int64         `json:"published"` // ever
	Acked     int64         `json:"acked"`     // ever
	Overdue   time.Duration `json:"-"`         // for how long the oldest ready message is due

	Broadcasts int64 `json:"broadcasts"` // that wait for their due time
	Sent       int64 `json:"sent"`       // broadcasts, ever
	Log        int64 `json:"log"`        // broadcasts that were sent and are kept
}

// Topic counts the messages of a topic; one that was never used has none.
// Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Topic(ctx context.Context, topic string) (Counts, error) {
	if err := CheckTopic(topic); err != nil {
		return Counts{}, err
	}
	reply, err := p.store.Run(ctx, topicsScript, append(p.store.keys.Topic(topic), p.store.keys.Log(topic)), topic)
	if err != nil {
		return Counts{}, fmt.Errorf("count %s: %w", topic, err)
	}
	var n [11]int64
	for i := range min(len(reply), len(n)) {
		n[i], _ = reply[i].(int64)
	}
	return Counts{
		Topic: topic, Scheduled: n[0], Ready: n[1], Leased: n[2], Dead: n[3], Waiting: n[4],
		Published: n[5], Acked: n[6], Overdue: time.Duration(n[7]) * time.Millisecond,
		Broadcasts: n[8], Sent: n[9], Log: n[10],
	}, nil
}

// Topics counts the messages of every topic that was ever published to, by name.
func (p *Publisher) Topics(ctx context.Context) ([]Counts, error) {
	names := make(map[string]bool)
	scan := p.store.client.HScan(ctx, p.store.keys.base+"topics", 0, "", batchItems).Iterator()
	for scan.Next(ctx) {
		topic, _, _ := strings.Cut(scan.Val(), ":")
		names[topic] = CheckTopic(topic) == nil // what is foreign is none of ours to count
		scan.Next(ctx)                          // the value
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("list topics: %w", p.store.explain(ctx, err))
	}
	all := make([]Counts, 0, len(names))
	for _, topic := range slices.Sorted(maps.Keys(names)) {
		if !names[topic] {
			continue
		}
		counts, err := p.Topic(ctx, topic)
		if err != nil {
			return nil, err
		}
		all = append(all, counts)
	}
	return all, nil
}
