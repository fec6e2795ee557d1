package store

import (
	"context"
	"time"
)

var sweepScript = script("sweep")

// A Sweep says what a step of the housekeeping looks for.
type Sweep struct {
	Token string // of the election
	Rank  int64  // from where on it looks at the topics that have dead letters; at first 0

	KeepDeadCount int           // dead letters that a topic keeps
	KeepDeadAge   time.Duration // for how long it keeps them
	KeepTopics    time.Duration // for how long a topic is remembered that has nothing left
}

// Swept is what a step of the housekeeping removed.
type Swept struct {
	Rank  int64 // for the next step
	Soon  bool  // there is more to do
	Whole bool  // all topics that have dead letters were looked at

	Forgotten int64     // topics
	ByDeaths  int64     // dead letters that deaths removed since the last step
	Removed   []Removed // dead letters that this one removed
}

// Removed is how many dead letters of a topic were removed.
type Removed struct {
	Topic string
	N     int64
}

// Sweep keeps house for a step. Errors: a DeposedError, see [Store.Check], or
// that of the connection.
func (s Shard) Sweep(ctx context.Context, w Sweep) (Swept, error) {
	r, err := s.run(ctx, sweepScript, w.Token, w.Rank, w.KeepDeadCount, w.KeepDeadAge.Milliseconds(), w.KeepTopics.Milliseconds())
	if err != nil {
		return Swept{}, err
	}
	if err := r.carrying(); err != nil {
		return Swept{}, err
	}
	m := Swept{Rank: r.integer(), Soon: r.flag(), Whole: r.flag(), Forgotten: r.integer(), ByDeaths: r.integer()}
	for l := r.list(); l.more(); {
		topic := l.text()
		m.Removed = append(m.Removed, Removed{Topic: topic, N: l.integer()})
	}
	return m, r.end()
}
