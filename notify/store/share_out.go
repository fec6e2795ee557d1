package store

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	shareScript = script.New("share_out")
	leaveScript = script.New("leave")
)

// ShareOut says what a subscriber would claim of several topics.
type ShareOut struct {
	Topics   []string
	Received []int64 // of each topic as Claim.Received; nil: none
	Max      int     // messages of all topics together
	Oldest   bool    // the oldest of all topics; else those of a topic before those of the topics behind it
	MinAge   time.Duration
	Inbox    reach.Inbox // that waits for all topics if nothing is ready; zero: none does
}

// Shares are how a claim of several topics is shared out among them.
type Shares struct {
	Of       []Share       // in the order in which to claim; empty if nothing is ready: the inbox waits now
	OnTheWay []int         // indexes of topics of which the inbox was sent a hand-over that it has not received
	Now      int64         // in us by Redis's clock
	Ripe     time.Duration // without shares: time until the oldest ready message reaches MinAge; negative: none is ready
}

// A Share is how many messages to claim of one topic.
type Share struct{ Topic, Max int } // index of the topic

// ShareOut shares out a claim among topics by what is ready of each, of topics that are
// not paused. It claims nothing. The error is that of the connection, after which the
// inbox may wait.
func (s Shard) ShareOut(ctx context.Context, o ShareOut) (Shares, error) {
	args := make([]any, 0, 4+2*len(o.Topics))
	args = append(args, o.Max, o.Oldest, record.CeilMs(o.MinAge), o.Inbox)
	for i, topic := range o.Topics {
		var received int64
		if o.Received != nil {
			received = o.Received[i]
		}
		args = append(args, topic, received)
	}
	r, err := s.Run(ctx, shareScript, args...)
	if err != nil {
		return Shares{}, err
	}
	found := Shares{Now: r.Integer(), Ripe: time.Duration(r.Integer()) * time.Millisecond}
	l := r.List()
	found.OnTheWay = l.Indexes(len(o.Topics))
	for r.More() {
		found.Of = append(found.Of, Share{Topic: r.Index(len(o.Topics)), Max: int(r.Integer())})
	}
	return found, r.End()
}

// Leave takes an inbox off the waiting lists of topics, and has others rung for what is
// ready. received are the times of the last hand-overs that it received, of each topic as
// Claim.Received: what was handed over to it since is ready again. It may be repeated. The
// error is that of the connection.
func (s Shard) Leave(ctx context.Context, inbox reach.Inbox, topics []string, received []int64) error {
	args := make([]any, 0, 1+2*len(topics))
	args = append(args, inbox)
	for i, topic := range topics {
		args = append(args, topic, received[i])
	}
	r, err := s.Run(ctx, leaveScript, args...)
	if err != nil {
		return err
	}
	return r.End()
}
