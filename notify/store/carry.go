package store

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var carryScript = script.New("carry")

// A DeposedError is the error of a carrier that lost its lease: another has it, or
// it ran out. The call did nothing.
type DeposedError struct {
	Vacant bool   // nobody has the lease: it ran out, or Redis lost it
	By     string // name of the carrier that has it
}

// Error says which of the two it was.
func (e *DeposedError) Error() string {
	if e.Vacant {
		return "the lease ran out"
	}
	return "another carrier has the lease"
}

// deposed reads the first value of a script that only the elected carrier may run.
// It returns a DeposedError for any other.
func deposed(r *script.Reply) error {
	if r.Flag() {
		return nil
	}
	token := r.Text()
	if err := r.End(); err != nil {
		return err
	}
	return &DeposedError{Vacant: token == "", By: carrierOf(token).Name}
}

// A Carry says what one call of the carrier does, and how much it moves at most.
type Carry struct {
	Token string        // of the election
	Epoch int64         // of the election, for the beat
	Lease time.Duration // to which a beat renews the carrier's lease

	Batch     int           // most messages to move one by one; 1 means two
	KeepCount int           // broadcasts that the log of a topic keeps, or some more
	KeepAge   time.Duration // how long a log keeps them, or some longer

	Beat    bool           // send a beat, too
	Look    bool           // and look at what changes slowly: Carried.Kept and Carried.Policy
	History bool           // a beat keeps claims counting their lateness, and answers with Carried.Totals
	Samples *[Rings]Sample // that a beat writes into the rings, if it has History; nil: none

	Settled *time.Duration // how late schedules may be, or only messages of topics without schedules are carried until they are settled; nil: all is in any case

	Ready string // cursor from which a beat checks the topics that have something ready; "0" at first
}

// Carried is what a call of the carrier moved. Times are in us by Redis's clock.
type Carried struct {
	Now   int64         // when the call began
	Took  time.Duration // how long Redis took; zero if its clock stands still in a script, as in Redis 7.2 and newer, and of a beat that moved nothing
	Next  int64         // when the next thing is due; zero: more is due already; record.Never: nothing is scheduled
	Moved int           // messages made ready, and broadcasts sent

	Earliest int64    // earliest due time of the scheduled messages and broadcasts that were moved; record.Never: none were
	Runs     []Run    // of the scheduled messages that were made ready
	Buried   []Buried // messages that died
	Dropped  []Buried // messages that failed or expired, and were dropped

	Ready    string   // for the next beat
	Kept     int64    // messages and broadcasts in the shard; -1 without a look
	Repeated int64    // topics for which the beat rang again because a subscriber that was rung had not claimed
	Handed   int64    // messages among those moved that were handed over, see [Handover]
	Lapsed   int64    // hand-overs, by any process, that ended unconfirmed
	Standby  *Standby // of a beat in a store of several shards: the one that carries the fewest, of those that said so lately; nil: none did
	Totals   *Totals  // of a beat with History; nil: it had none
	Fill     bool     // schedules are to be filled
	Settle   bool     // as Fill, before more is carried, since they are late: see [Carry.Settled]
	Policy   string   // maxmemory-policy that lets Redis evict messages; empty without a look, and if it evicts nothing
}

// A Standby is a carrier that stands by, by its name, and how many shards it carries.
type Standby struct {
	Name    string
	Carries int
}

// A Run is the number of messages of a topic that had one due time.
type Run struct {
	Due int64
	N   int
}

// Buried is a message that died, or was dropped.
type Buried struct {
	Member, Reason string
	Attempts       int // used up
}

// Carry moves due messages and broadcasts, and with a beat renews the lease. Errors:
// a DeposedError, see [Store.Check], or that of the connection.
func (s Shard) Carry(ctx context.Context, c Carry) (Carried, error) {
	args := []any{c.Token, c.Epoch, c.Lease.Milliseconds(), c.Batch, c.KeepCount, c.KeepAge.Milliseconds(), c.Beat, c.Look, c.Ready, c.settled()}
	if c.History && c.Beat {
		args = append(args, Seconds.bytes(), Minutes.bytes())
		for ring := Ring(0); c.Samples != nil && ring < Rings; ring++ {
			args = append(args, ring.offset(c.Samples[ring].At), c.Samples[ring].encode())
		}
	}
	r, err := s.Run(ctx, carryScript, args...)
	if err != nil {
		return Carried{}, err
	}
	if err := deposed(r); err != nil {
		return Carried{}, err
	}
	m := Carried{Ready: c.Ready, Kept: -1, Earliest: record.Never}
	wait := r.Integer()
	m.Now = r.Integer()
	s.Heed(time.UnixMicro(m.Now))
	m.Next = nextOf(m.Now, wait)
	for r.More() {
		m.read(r)
	}
	return m, r.End()
}

// settled returns Settled as the script gets it, in ms.
func (c *Carry) settled() any {
	if c.Settled == nil {
		return ""
	}
	return c.Settled.Milliseconds()
}

// read reads one part of the answer, behind its name.
func (m *Carried) read(r *script.Reply) {
	switch name := r.Text(); name {
	case "took":
		m.Took = time.Duration(r.Integer()) * time.Microsecond
	case "moved":
		m.Moved = int(r.Integer())
	case "earliest":
		m.Earliest = r.Due()
	case "runs":
		m.Runs = runsIn(r)
	case "handed":
		m.Handed = r.Integer()
	case "buried":
		m.Buried = buriedIn(r)
	case "dropped":
		m.Dropped = buriedIn(r)
	case "lapsed":
		m.Lapsed = r.Integer()
	case "cursor":
		m.Ready = r.Text()
	case "kept":
		m.Kept = r.Integer()
	case "repeated":
		m.Repeated = r.Integer()
	case "evicts":
		m.Policy = r.Text()
	case "taker":
		l := r.List()
		m.Standby = &Standby{Name: l.Text(), Carries: int(l.Integer())}
		_ = l.End() // which ends r
	case "fill":
		m.Fill = r.Flag()
	case "settle":
		m.Settle = r.Flag()
	case "totals":
		m.Totals = totalsIn(r.List())
	default:
		r.Fail("a part of the answer", name)
	}
}

// nextOf returns when the next thing is due if that is so long after now.
func nextOf(now, wait int64) int64 {
	switch {
	case wait < 0:
		return record.Never
	case wait == 0: // it is due already; only the script knows since when
		return 0
	}
	return now + wait
}

// runsIn reads a list of due times, each with the number of messages that had it.
func runsIn(r *script.Reply) (all []Run) {
	for l := r.List(); l.More(); {
		due := l.Due()
		all = append(all, Run{Due: due, N: int(l.Integer())})
	}
	return all
}

// buriedIn reads a list of messages that ended: member, reason and attempts of each.
func buriedIn(r *script.Reply) (all []Buried) {
	for l := r.List(); l.More(); {
		member, reason := l.Text(), l.Text()
		all = append(all, Buried{Member: member, Reason: reason, Attempts: int(l.Integer())})
	}
	return all
}
