package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	electScript    = script.New("elect")
	electedScript  = script.New("elected", script.Looks)
	resignScript   = script.New("resign")
	withdrawScript = script.New("withdraw")
)

// MaxCarrierLease is the longest lease of a carrier.
const MaxCarrierLease = 10 * time.Minute

// An Election is the result of standing for election.
type Election struct {
	Won   bool
	Token string          // of the lease that was won; every call of the carrier needs it
	Epoch int64           // number of the election that was won
	Since time.Time       // of that, by Redis's clock
	Sent  record.Position // of the last broadcast before it; zero: none
	Left  time.Duration   // if lost: how long the other carrier's lease lasts at most
}

// Elect stands for election once, under a name for people to read, for a lease in
// whole milliseconds. A candidate that loses in a store of several shards notes there how
// many shards it carries: see [Carried.Standby]. Errors: see [Store.Check], or that of the
// connection.
func (s Shard) Elect(ctx context.Context, name string, lease time.Duration, carries int) (Election, error) {
	longest := max(MaxCarrierLease, 3*s.store.Beat())
	r, err := s.Run(ctx, electScript, name, lease.Milliseconds(), longest.Milliseconds(), carries, calendar.Version())
	if err != nil {
		return Election{}, err
	}
	var e Election
	e.Won = r.Flag()
	token, number := r.Text(), r.Integer()
	if e.Won {
		e.Token, e.Epoch, e.Since, e.Sent = token, number, carrierOf(token).Since, record.Position(r.Integer())
	} else {
		e.Left = time.Duration(number) * time.Millisecond
	}
	return e, r.End()
}

// Resign gives up the lease of a token, and tells the standbys. It reports whether
// the carrier still had it. In a store of several shards it names the standby that is to
// take over: to, or if that is empty the one that carries the fewest shards, where each of
// those that the carrier gave up before went to one, too.
func (s Shard) Resign(ctx context.Context, token, to string, before int) (was bool, err error) {
	r, err := s.Run(ctx, resignScript, token, to, before)
	if err != nil {
		return false, err
	}
	was = r.Flag()
	return was, r.End()
}

// Withdraw forgets what a standby noted when it lost an election, since it stops. Errors:
// see [Store.Check], or that of the connection.
func (s Shard) Withdraw(ctx context.Context, name string) error {
	r, err := s.Run(ctx, withdrawScript, name)
	if err != nil {
		return err
	}
	r.Integer()
	return r.End()
}

// Standbys returns how many carriers stand by: only they subscribe to
// VacantChannel. The error is that of the connection.
func (s Shard) Standbys(ctx context.Context) (int64, error) {
	return s.store.Listening(ctx, s.VacantChannel())
}

// An ElectedCarrier describes the elected carrier, and when the next thing is due.
type ElectedCarrier struct {
	Name  string        // of the carrier; empty: none is elected; the whole token if that is foreign
	Epoch int64         // number of the election
	Since time.Time     // of the election, by Redis's clock
	Lease time.Duration // time that is left of the lease
	Whole time.Duration // time to which the lease is renewed
	Next  time.Time     // when the next scheduled message or broadcast is due; zero: nothing is scheduled
}

// Carrier returns the elected carrier, if there is one. It founds no store. Errors: an ErrUnfit for a
// store of another format, or that of the connection.
func (s Shard) Carrier(ctx context.Context) (o ElectedCarrier, err error) {
	r, err := s.Run(ctx, electedScript)
	if err != nil || !r.More() {
		return o, err
	}
	token, left := r.Text(), r.Integer()
	if token != "" {
		o = carrierOf(token)
		o.Lease = time.Duration(left) * time.Millisecond
	}
	if next := min(r.Due(), r.Due()); next < record.Never {
		o.Next = time.UnixMicro(next).UTC()
	}
	return o, r.End()
}

// carrierOf reads the token of an elected carrier: EPOCH SINCE LEASE NAME, as
// elect.lua writes it. All of a foreign token is the name.
func carrierOf(token string) (o ElectedCarrier) {
	fields := strings.SplitN(token, " ", 4)
	if len(fields) < 4 {
		o.Name = token
		return o
	}
	o.Epoch, _ = strconv.ParseInt(fields[0], 10, 64)
	if since, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
		o.Since = record.TimeOfMs(float64(since))
	}
	if lease, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
		o.Whole = min(max(time.Duration(lease), 0), MaxCarrierLease/time.Millisecond) * time.Millisecond
	}
	o.Name = fields[3]
	return o
}
