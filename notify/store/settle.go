package store

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	ackScript     = script.New("ack", script.Promised)
	nackScript    = script.New("nack", script.Promised)
	extendScript  = script.New("extend")
	releaseScript = script.New("release")
)

// A Lease is a leased message, and the receipt that proves the lease.
type Lease struct {
	Member  string
	Receipt int64  // the end of the lease in us by Redis's clock, but for its last digit
	Handed  bool   // it is that of a hand-over that is not confirmed
	Worker  string // has it, which Redis does not know of such a hand-over; or empty
}

// receipt returns the receipt as scripts have it.
func (l Lease) receipt() any {
	if l.Handed {
		return strconv.FormatInt(l.Receipt, 10) + ".5"
	}
	return l.Receipt
}

// Ack acknowledges messages of a topic, which removes them. It returns the indexes
// of those whose lease is lost. The error is that of the connection, after which
// the messages may or may not be acknowledged.
func (s Shard) Ack(ctx context.Context, topic string, leases []Lease) (lost []int, err error) {
	r, err := s.Run(ctx, ackScript, inRuns(leases, topic)...)
	if err != nil {
		return nil, err
	}
	lost = r.Indexes(len(leases))
	return lost, r.End()
}

// A Nack rejects a message, or puts it off.
type Nack struct {
	Lease
	Delay  time.Duration // until the message is due again, rounded up to a millisecond; negative: a random wait by the topic's settings
	Reason string        // kept if the message dies
	Bury   bool          // the message dies at once
	Keep   bool          // no attempt is used up: the message is only put off; excludes Bury
	ToEnd  bool          // with Keep: to the end of its time to live at the latest, and then the reason is kept among its attempts
}

// Nacked is what became of a rejected message.
type Nacked struct {
	Lost      bool // the lease is lost: nothing was done
	Dead      bool // it was the last attempt, or Bury was set
	Dropped   bool // it was the last attempt, and the message asked for that
	Cancelled bool // instead, see [Shard.Stop]
	Attempts  int  // used up
	Due       time.Time

	Forgetful bool // memory was short: the attempt counts, but is not in the message's history
}

// how returns what the script is to do.
func (n *Nack) how() string {
	switch {
	case n.Bury:
		return "bury"
	case n.Keep && n.ToEnd:
		return "wait"
	case n.Keep:
		return "keep"
	}
	return ""
}

// Nack rejects a message of a topic: it is due again later, or ends. Errors: a Fault
// where a message may not be put off so far, or so often, after which its lease goes on;
// or that of the connection.
func (s Shard) Nack(ctx context.Context, topic string, n Nack) (Nacked, error) {
	var delay any = record.CeilMs(n.Delay)
	if n.Delay < 0 {
		delay = ""
	}
	r, err := s.Run(ctx, nackScript, topic, n.Member, n.receipt(), delay, rand.IntN(1e6), n.Reason, n.how(), n.Worker)
	if err != nil {
		return Nacked{}, err
	}
	state := r.Text()
	switch state {
	case "":
		return Nacked{Lost: true}, r.End()
	case "expires", "often":
		return Nacked{}, refusalIn(r, state, n.Delay)
	case "scheduled", "dead", "dropped", "cancelled":
	default:
		r.Fail("scheduled, dead, dropped or cancelled", state)
	}
	out := Nacked{Dead: state == "dead", Dropped: state == "dropped", Cancelled: state == "cancelled", Attempts: int(r.Integer()), Due: time.UnixMilli(r.Integer()), Forgetful: r.Flag()}
	return out, r.End()
}

// refusalIn reads why a message may not be put off, and returns that as a Fault.
func refusalIn(r *script.Reply, why string, delay time.Duration) error {
	n := r.Integer()
	if err := r.End(); err != nil {
		return err
	}
	wait := "by the backoff"
	if delay >= 0 {
		wait = fault.Short(delay)
	}
	switch {
	case why == "often":
		return fault.New("attempt", "attempt keep: the message was put off %d times, and one without a time to live no more often; let this attempt count", n)
	case n == 0:
		return fault.New("delay", "delay %s: the message's time to live is over; acknowledge it, or let this attempt count", wait)
	}
	return fault.New("delay", "delay %s: it ends past the message's time to live, at %s; use a shorter one, or let this attempt count", wait, time.UnixMilli(n).UTC().Format(time.RFC3339Nano))
}

// Extended is what became of leases that were to be extended.
type Extended struct {
	Receipts []int64 // the new ones; zero of those that are lost
	Lost     []int   // the indexes of those whose lease is lost
	Stopped  []int   // the indexes of those whose message is to be cancelled, see [Shard.Stop]: they keep their receipts, and end when they would have
}

// Extend makes the leases of a topic's messages end a lease from now, cut to the
// millisecond, or with the timeout of the try if that is before; zero is the lease of
// each message, or of the topic's settings. Whoever has a message is noted for the new
// lease, too; where that is unknown, it is the worker of a name, unless that is empty. Of one
// lease it notes the progress that the context has, see [WithProgress]. The
// error is that of a wrong one, or of the connection.
func (s Shard) Extend(ctx context.Context, topic, worker string, leases []Lease, lease time.Duration) (Extended, error) {
	return s.extend(ctx, topic, worker, leases, lease, 0)
}

// extendedLonger is how long the receipt of the claim of an extended lease is kept after
// the lease ended: the carrier takes the message back within that time.
const extendedLonger = time.Minute

// ExtendByClaim is Extend for callers that go on with the receipts of their claims: these
// settle and extend the messages until the leases end.
func (s Shard) ExtendByClaim(ctx context.Context, topic, worker string, leases []Lease, lease time.Duration) (Extended, error) {
	return s.extend(ctx, topic, worker, leases, lease, extendedLonger)
}

func (s Shard) extend(ctx context.Context, topic, worker string, leases []Lease, lease, longer time.Duration) (e Extended, err error) {
	var progress []any
	if len(leases) == 1 {
		if progress, err = progressOf(ctx); err != nil {
			return Extended{}, err
		}
	}
	r, err := s.Run(ctx, extendScript, append(withLeases(leases, topic, lease.Milliseconds(), worker, longer.Milliseconds()), progress...)...)
	if err != nil {
		return Extended{}, err
	}
	receipt := r.Integer()
	e = Extended{Receipts: make([]int64, len(leases)), Lost: r.List().Indexes(len(leases))}
	for i, l := range leases {
		e.Receipts[i] = withDigit(receipt, l.Receipt)
	}
	for r.More() {
		at, its := r.Integer(), r.Integer()
		if at < 1 || at > int64(len(leases)) {
			r.Fail("a position in what was given", at)
			break
		}
		if e.Receipts[at-1] = its; its == 0 {
			e.Receipts[at-1] = leases[at-1].Receipt
			e.Stopped = append(e.Stopped, int(at-1))
		}
	}
	for _, i := range e.Lost {
		e.Receipts[i] = 0
	}
	return e, r.End()
}

// Confirm gives messages of a topic that were handed over the leases that their
// receipts promise, see [Handover.Promise], and notes the name of the worker that has
// them, unless that is empty. It returns the indexes of those whose lease is lost, or
// settled. It may be repeated. The error is that of the connection.
func (s Shard) Confirm(ctx context.Context, topic, worker string, leases []Lease) (lost []int, err error) {
	e, err := s.Extend(ctx, topic, worker, leases, -time.Millisecond)
	return e.Lost, err
}

// A Return is a message that is released.
type Return struct {
	Lease
	Due time.Time // the due time that the message had; zero: now, behind what is overdue
}

// Release makes messages of a topic ready again without using up an attempt, or cancels
// those that are to be, and takes an inbox, unless empty, off the topic's waiting list as
// [Shard.Leave] does. It returns the indexes of those whose lease is lost. The error is
// that of the connection.
func (s Shard) Release(ctx context.Context, topic string, inbox reach.Inbox, received int64, back []Return) (lost []int, err error) {
	leases, dues := make([]Lease, len(back)), make([]any, len(back))
	for i, one := range back {
		leases[i], dues[i] = one.Lease, int64(0)
		if !one.Due.IsZero() {
			dues[i] = one.Due.UnixMilli()
		}
	}
	r, err := s.Run(ctx, releaseScript, append(withLeases(leases, topic, inbox, received), dues...)...)
	if err != nil {
		return nil, err
	}
	lost = r.Indexes(len(back))
	return lost, r.End()
}

// withLeases returns first, then the members of leases, then their receipts.
func withLeases(leases []Lease, first ...any) []any {
	args := make([]any, 0, len(first)+3*len(leases))
	args = append(args, first...)
	for _, l := range leases {
		args = append(args, l.Member)
	}
	for _, l := range leases {
		args = append(args, l.receipt())
	}
	return args
}

// inRuns returns a topic, then the leases in runs of one receipt: the receipt, how many
// leases have it, and their members.
func inRuns(leases []Lease, topic string) []any {
	args := make([]any, 0, 5+len(leases))
	args = append(args, topic)
	for len(leases) > 0 {
		n := 1
		for n < len(leases) && leases[n].Receipt == leases[0].Receipt && leases[n].Handed == leases[0].Handed {
			n++
		}
		args = append(args, leases[0].receipt(), n)
		for i := range leases[:n] {
			args = append(args, &leases[i].Member) // a pointer needs no allocation
		}
		leases = leases[n:]
	}
	return args
}
