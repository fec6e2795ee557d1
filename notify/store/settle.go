package store

import (
	"context"
	"math/rand/v2"
	"time"
)

var (
	ackScript     = script("ack", promised)
	nackScript    = script("nack", promised)
	extendScript  = script("extend")
	releaseScript = script("release")
)

// A Lease is a message that a subscriber has, and the receipt under which it does.
type Lease struct {
	Member  string
	Receipt int64 // the end of the lease in us by Redis's clock, but for its last digit
}

// Ack acknowledges messages of a topic: they are done and gone. It returns the
// indexes of those whose lease is lost. The error is that of the connection,
// after which they may or may not be gone.
func (s Shard) Ack(ctx context.Context, topic string, leases []Lease) (lost []int, err error) {
	r, err := s.run(ctx, ackScript, withLeases(leases, topic)...)
	if err != nil {
		return nil, err
	}
	lost = r.positions(len(leases))
	return lost, r.end()
}

// A Nack says how a message is given back that was not done.
type Nack struct {
	Lease
	Delay  time.Duration // until it is due again, rounded up to a millisecond; less than zero: a random wait by the topic's settings
	Reason string        // that is kept if it dies
	Bury   bool          // it is never to be done: it dies at once
}

// Nacked is what became of it.
type Nacked struct {
	Lost     bool // its lease: nothing was done
	Dead     bool // it was the last attempt, or it was to die
	Attempts int  // used up
	Due      time.Time
}

// Nack gives a message of a topic back as not done. The error is that of the connection.
func (s Shard) Nack(ctx context.Context, topic string, n Nack) (Nacked, error) {
	var delay any = ceilMs(n.Delay)
	if n.Delay < 0 {
		delay = ""
	}
	r, err := s.run(ctx, nackScript, topic, n.Member, n.Receipt, delay, rand.IntN(1e6), n.Reason, n.Bury)
	if err != nil {
		return Nacked{}, err
	}
	state := r.text()
	if state == "" {
		return Nacked{Lost: true}, r.end()
	}
	if state != "scheduled" && state != "dead" {
		r.fail("scheduled or dead", state)
	}
	return Nacked{Dead: state == "dead", Attempts: int(r.integer()), Due: time.UnixMilli(r.integer())}, r.end()
}

// Extend gives messages of a topic a lease from now on, cut to the millisecond;
// zero is that of the topic's settings. It returns the receipt that each has since,
// but for the last digit, which it keeps, and the indexes of those whose lease is
// lost. The error is that of the connection.
func (s Shard) Extend(ctx context.Context, topic string, leases []Lease, lease time.Duration) (receipt int64, lost []int, err error) {
	r, err := s.run(ctx, extendScript, withLeases(leases, topic, lease.Milliseconds())...)
	if err != nil {
		return 0, nil, err
	}
	receipt, lost = r.integer(), r.positions(len(leases))
	return receipt, lost, r.end()
}

// A Return is a message that is given back untouched.
type Return struct {
	Lease
	Due time.Time // since when it is ready again; zero: now, behind what is overdue
}

// Release gives messages of a topic back untouched, so that no attempt is used
// up, and has an inbox wait for the topic no longer; empty: none does. It returns
// the indexes of those whose lease is lost. The error is that of the connection.
func (s Shard) Release(ctx context.Context, topic, inbox string, back []Return) (lost []int, err error) {
	leases, dues := make([]Lease, len(back)), make([]any, len(back))
	for i, one := range back {
		leases[i], dues[i] = one.Lease, int64(0)
		if !one.Due.IsZero() {
			dues[i] = one.Due.UnixMilli()
		}
	}
	r, err := s.run(ctx, releaseScript, append(withLeases(leases, topic, inbox), dues...)...)
	if err != nil {
		return nil, err
	}
	lost = r.positions(len(back))
	return lost, r.end()
}

// withLeases returns first, then the members of leases, then their receipts.
func withLeases(leases []Lease, first ...any) []any {
	args := make([]any, 0, len(first)+3*len(leases))
	args = append(args, first...)
	for _, l := range leases {
		args = append(args, l.Member)
	}
	for _, l := range leases {
		args = append(args, l.Receipt)
	}
	return args
}

// positions reads all that is left as positions, from 1, in a list of n, and
// returns them as indexes.
func (r *reply) positions(n int) (indexes []int) {
	for r.more() {
		at := r.integer()
		if at < 1 || at > int64(n) {
			r.fail("a position in what was given", at)
			return nil
		}
		indexes = append(indexes, int(at-1))
	}
	return indexes
}
