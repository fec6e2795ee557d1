package store

import (
	"cmp"
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var sweepScript = script.New("sweep")

// A Sweep says what a step of the housekeeping removes.
type Sweep struct {
	Token string // of the election
	Rank  int64  // rank from which it checks the topics that have dead letters; 0 at first
	Old   int64  // rank from which it checks the logs that are old; 0 at first

	Done int64 // rank from which it checks the topics that keep what succeeded; 0 at first

	Seat  string // where it goes on to look at the seats of keys; empty at first
	Group string // where at groups; empty at first

	KeepDeadCount int           // dead letters that a topic keeps
	KeepDeadAge   time.Duration // how long a topic keeps them
	KeepDoneCount int           // messages that succeeded that a topic keeps
	KeepDoneAge   time.Duration // how long a topic keeps one at the longest, of those acknowledged from now on
	KeepTopics    time.Duration // how long an empty topic is remembered
	KeepAge       time.Duration // how long a log keeps broadcasts, or some longer
}

// Swept is what a step of the housekeeping removed.
type Swept struct {
	Rank  int64  // for the next step
	Old   int64  // for the next step
	Done  int64  // for the next step
	Seat  string // for the next step
	Group string // for the next step
	Soon  bool   // there is more to do
	More  bool   // there are more topics to check
	Whole bool   // all topics that have dead letters were checked

	Forgotten  int64     // topics
	ByDeaths   int64     // dead letters that deaths removed since the last step
	Unarchived int64     // entries of the stream of endings that were removed since the last step: they were more than its room
	Removed    []Removed // dead letters that this step removed
	TooMany    int64     // messages that succeeded, removed since the last step because their topics kept too many
}

// Removed is how many dead letters of a topic were removed.
type Removed struct {
	Topic string
	N     int64
}

// Sweep does one step of the housekeeping. Errors: a DeposedError, see
// [Store.Check], or that of the connection.
func (s Shard) Sweep(ctx context.Context, w Sweep) (Swept, error) {
	r, err := s.Run(ctx, sweepScript, w.Token, w.Rank, w.KeepDeadCount, w.KeepDeadAge.Milliseconds(),
		w.KeepTopics.Milliseconds(), w.KeepAge.Milliseconds(), w.Old,
		w.KeepDoneCount, w.KeepDoneAge.Milliseconds(), w.Done, cmp.Or(w.Seat, "0 0 0"), cmp.Or(w.Group, "0 0 0"))
	if err != nil {
		return Swept{}, err
	}
	if err := deposed(r); err != nil {
		return Swept{}, err
	}
	m := Swept{Rank: r.Integer(), Old: r.Integer(), Soon: r.Flag(), More: r.Flag(), Whole: r.Flag(), Forgotten: r.Integer(), ByDeaths: r.Integer(), Unarchived: r.Integer()}
	for l := r.List(); l.More(); {
		topic := l.Text()
		m.Removed = append(m.Removed, Removed{Topic: topic, N: l.Integer()})
	}
	m.Done, m.TooMany, m.Seat, m.Group = r.Integer(), r.Integer(), r.Text(), r.Text()
	return m, r.End()
}
