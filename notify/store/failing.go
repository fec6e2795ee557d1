package store

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var failingScript = script.New("failing")

// Bounds of Failing.
const (
	failingTopics   = 100
	failingMessages = 5 // of each
	failingFrom     = 3 // attempts that failed
)

// A Failing is a topic with messages of which attempt after attempt failed, and none succeeded.
type Failing struct {
	Topic    string
	Messages int64 // that failed so, of those that were looked at

	// Of the message that failed last: how many attempts, when the last one ended, who had it, empty if unknown, and why it failed.
	ID       string
	Attempts int64
	Ended    time.Time
	Worker   string
	Reason   string
}

// Failing returns the topics with messages of which three attempts or more failed, and the time by Redis's clock. It looks at five messages
// of each of 100 topics, those that fall due next: one that failed comes again soon. A topic that keeps no history has none. The error is
// that of the connection.
func (s Shard) Failing(ctx context.Context) (all []Failing, now time.Time, err error) {
	r, err := s.Run(ctx, failingScript, failingArgs()...)
	if err != nil {
		return nil, now, err
	}
	for now = time.UnixMilli(r.Integer()).UTC(); r.More(); {
		f := Failing{Topic: r.Text(), Messages: r.Integer(), ID: r.Text(), Attempts: r.Integer()}
		f.Ended, f.Worker, f.Reason = time.UnixMilli(r.Integer()).UTC(), r.Text(), r.Text()
		all = append(all, f)
	}
	return all, now, r.End()
}

func failingArgs() []any { return []any{failingTopics, failingMessages, failingFrom} }
