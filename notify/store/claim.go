package store

import (
	"context"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	claimScript  = script.New("claim")
	ackNowScript = script.New("claim", script.Promised) // an acknowledgement that a failover undoes would bring the message twice
)

// A Claim says what a subscriber claims.
type Claim struct {
	Topic  string
	Max    int
	Lease  time.Duration // cut to the millisecond; zero: that of the topic's settings
	AckNow bool          // acknowledge the messages instead of leasing them
	MinAge time.Duration // how long a message must have been due, rounded up to a millisecond
	Inbox  reach.Inbox   // that waits for the topic if there are fewer than Max messages; zero: none does

	Name string // of the worker; empty: nobody knows who has the messages

	Try    bool   // to claim one message whose lateness does not count, since its handler could not handle another one
	Behind string // of a Try: the member behind which that is, by due time; empty, or none is: the oldest

	Received int64 // Handover.At of the last hand-over of the topic that the inbox received; 0: none
}

// Claimed is the result of a claim.
type Claimed struct {
	Messages []ClaimedMessage
	Lease    time.Duration // of each message that has none of its own
	Buried   []Buried      // messages that died instead: expired, late, without a record, or of another topic
	Dropped  []Buried      // messages that were dropped instead: expired, or late
	Short    bool          // there were fewer than Max: the inbox waits now
	Now      int64         // time of the claim in us by Redis's clock
	OnTheWay bool          // nothing was claimed: the inbox was sent a hand-over that it has not received
	Ripe     time.Duration // without messages: time until the oldest ready one reaches MinAge; negative: none is ready
}

// A ClaimedMessage is a message that was claimed. One that was acknowledged at once has
// no receipt.
type ClaimedMessage struct {
	Lease
	Length  time.Duration    // of the lease
	Fence   int64            // greater than those of all claimed before of the topic; zero if no message of it has a key
	Due     time.Time        // since when it is ready; zero if that is foreign
	Used    int              // attempts used up; zero if that is foreign
	History []record.Attempt // of the last attempts that failed, oldest first
	Record  string           // see [record.Decode]
}

// Claim leases up to c.Max ready messages of a topic that have been due for at
// least c.MinAge, oldest first; none while the topic is paused, and no more than its
// limits let go. The error is that of the connection, after which messages may be leased,
// or acknowledged; with AckNow it may be an ErrUnreplicated, after which they are
// acknowledged.
func (s Shard) Claim(ctx context.Context, c Claim) (Claimed, error) {
	t, lease := claimScript, c.Lease.Milliseconds()
	if c.AckNow {
		t, lease = ackNowScript, -1
	}
	args := append(make([]any, 0, 8), c.Topic, c.Max, lease, record.CeilMs(c.MinAge), c.Inbox, c.Received) // 8: room for what run adds
	switch {
	case c.Try:
		args = append(args, c.Name, c.Behind)
	case c.Name != "":
		args = append(args, c.Name)
	}
	r, err := s.Run(ctx, t, args...)
	if err != nil {
		return Claimed{}, err
	}
	got := Claimed{Short: r.Flag(), Now: r.Integer(), Ripe: -time.Millisecond}
	attempts := new(script.Reply)
	for r.More() {
		switch name := r.Text(); name {
		case "on_the_way":
			got.OnTheWay = r.Flag()
		case "ripe":
			got.Ripe = time.Duration(r.Integer()) * time.Millisecond
		case "attempts":
			attempts = r.List()
		case "claimed":
			got.Lease = record.Ms(r.Integer())
			got.Messages = readClaimed(r, r.Integer(), got.Lease, attempts)
		case "fence":
			fence := r.Integer()
			for i := range got.Messages {
				got.Messages[i].Fence = fence + int64(i)
			}
		case "own":
			readOwnLeases(r.List(), got.Messages)
		case "buried":
			got.Buried = endedIn(r.List())
		case "dropped":
			got.Dropped = endedIn(r.List())
		default:
			r.Fail("a part of the answer", name)
		}
	}
	if c.AckNow {
		got.Lease = 0
		for i := range got.Messages {
			got.Messages[i].Receipt, got.Messages[i].Length = 0, 0
		}
	}
	return got, r.End()
}

// endedIn reads members and reasons until the end.
func endedIn(r *script.Reply) (all []Buried) {
	for r.More() {
		all = append(all, Buried{Member: r.Text(), Reason: r.Text()})
	}
	return all
}

// readOwnLeases reads which messages have a lease of their own, until the end.
func readOwnLeases(r *script.Reply, all []ClaimedMessage) {
	for r.More() {
		at := r.Integer()
		if at < 1 || at > int64(len(all)) {
			r.Fail("a position among the messages", at)
			return
		}
		m, length := &all[at-1], record.Ms(r.Integer())
		m.Receipt += (length - m.Length).Microseconds()
		m.Length = length
	}
}

// readClaimed reads members, runs of due times, and records, and the attempts of each that were
// read before, if any were used up. The record of a member that was buried or dropped is missing.
func readClaimed(r *script.Reply, receipt int64, length time.Duration, attempts *script.Reply) []ClaimedMessage {
	members, runs, records := r.List(), r.List(), r.List()
	counted := attempts.More()
	all := make([]ClaimedMessage, 0, records.Left())
	var due time.Time
	for left := int64(0); records.More(); left-- {
		if left == 0 {
			due, left = record.TimeOf(runs.Text()), runs.Integer()
		}
		m := ClaimedMessage{Lease: Lease{Member: members.Text(), Receipt: receipt}, Length: length, Due: due}
		if counted {
			if value, used := attempts.TextOrNone(); used {
				m.Used, m.History = record.DecodeAttempts(value)
				m.Receipt = withDigit(receipt, receipt+digitOf(value))
			}
		}
		var there bool
		if m.Record, there = records.TextOrNone(); there {
			all = append(all, m)
		}
	}
	for _, rest := range []*script.Reply{members, runs, attempts} {
		_ = rest.End()
	}
	return all
}

// withDigit returns a receipt with the last digit of another, which an extension
// keeps. It does what receipt_of of lua/shared/leases.lua does.
func withDigit(receipt, of int64) int64 { return receipt - receipt%10 + of%10 }

// digitOf returns the last digit of how many attempts are used up, 0 if that is foreign.
// It does what digit_of of lua/shared/leases.lua does.
func digitOf(attempts string) int64 {
	count, _, _ := strings.Cut(attempts, "\n")
	if count == "" || strings.Trim(count, "0123456789") != "" {
		return 0
	}
	return int64(count[len(count)-1] - '0')
}
