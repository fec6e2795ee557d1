package store

import (
	"context"
	"math"
	"time"
)

var carryScript = script("carry")

// Never is a time in us that does not come while anybody waits for it.
const Never = math.MaxInt64 / 2000

// A DeposedError is the error of a carrier whose lease is another's, or ran out.
// The call did nothing.
type DeposedError struct {
	Vacant bool   // nobody has the lease: it ran out, or Redis lost it
	By     string // the name of who has it
}

// Error says which.
func (e *DeposedError) Error() string {
	if e.Vacant {
		return "the lease ran out"
	}
	return "the lease is another's"
}

// carrying reads the first value of a script that is for the elected carrier only:
// a DeposedError where that is another.
func (r *reply) carrying() error {
	if r.flag() || r.err != nil {
		return nil
	}
	token := r.text()
	if err := r.end(); err != nil {
		return err
	}
	return &DeposedError{Vacant: token == "", By: officeOf(token).Name}
}

// A Carry says what a call of the carrier moves at the most.
type Carry struct {
	Token string        // of the election
	Epoch int64         // its number, for the beat
	Lease time.Duration // to which it is renewed

	Batch     int           // messages, or two if it is one
	KeepCount int           // broadcasts that the log of a topic keeps, or some more
	KeepAge   time.Duration // for how long it keeps them, or some longer

	Beat  bool   // it beats, too
	Ready string // from where on a beat looks at the topics that have something ready; at first "0"
	Old   int64  // from where on it looks at logs that are old; at first 0
}

// Carried is what a call of the carrier moved. Times are in us by Redis's clock.
type Carried struct {
	Now   int64         // when the call began
	Took  time.Duration // how long Redis took; zero where its clock stands still in a script: Redis 7.2 and newer
	Next  int64         // when the next thing is due; zero: more is due already, Never: nothing is scheduled
	Moved int           // messages that were made ready, and broadcasts that were sent

	Earliest int64    // when the first of what was scheduled and moved was due; Never: there was none
	Runs     []Run    // of the scheduled messages that were made ready
	Buried   []Buried // that died

	Ready    string // for the next beat
	Old      int64  // for the next beat
	Kept     int64  // messages and broadcasts that there are; -1 between beats
	Repeated int64  // topics for which the beat rang again
	Policy   string // by which Redis may evict what it holds; empty between beats, and where it does not
}

// A Run is how many messages of a topic had one due time.
type Run struct {
	Due int64
	N   int
}

// Buried is a message that died.
type Buried struct {
	Member, Reason string
	Attempts       int // used up
}

// Carry moves what is due, and renews the lease. Errors: a DeposedError, see
// [Store.Check], or that of the connection.
func (s Shard) Carry(ctx context.Context, c Carry) (Carried, error) {
	r, err := s.run(ctx, carryScript, c.Token, c.Epoch, c.Lease.Milliseconds(), c.Batch,
		c.KeepCount, c.KeepAge.Milliseconds(), c.Beat, c.Ready, c.Old)
	if err != nil {
		return Carried{}, err
	}
	if err := r.carrying(); err != nil {
		return Carried{}, err
	}
	m := Carried{Moved: int(r.integer())}
	wait := r.decimal()
	m.Now = r.decimal()
	m.Next = nextOf(m.Now, wait)
	m.Took = time.Duration(r.integer()) * time.Microsecond
	m.Ready, m.Old, m.Kept = r.text(), r.integer(), r.integer()
	m.Earliest = r.due()
	m.Runs = r.runs()
	m.Repeated, m.Policy = r.integer(), r.text()
	m.Buried = r.buried()
	return m, r.end()
}

// nextOf returns when the next thing is due that one has to wait for so long.
func nextOf(now, wait int64) int64 {
	switch {
	case wait < 0:
		return Never
	case wait == 0: // since when, only the script knows
		return 0
	}
	return now + wait
}

// runs reads a list of due times, each with how many messages had it.
func (r *reply) runs() (all []Run) {
	for l := r.list(); l.more(); {
		due := l.due()
		all = append(all, Run{Due: due, N: int(l.integer())})
	}
	return all
}

// buried reads a list of messages that died: member, reason and attempts of each.
func (r *reply) buried() (all []Buried) {
	for l := r.list(); l.more(); {
		member, reason := l.text(), l.text()
		all = append(all, Buried{Member: member, Reason: reason, Attempts: int(l.integer())})
	}
	return all
}
