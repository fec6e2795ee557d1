package store

import (
	"context"
	"strconv"
	"strings"
	"time"
)

var claimScript = script("claim")

// A Claim says what a subscriber claims.
type Claim struct {
	Topic  string
	Max    int
	Lease  time.Duration // cut to the millisecond; zero: that of the topic's settings
	MinAge time.Duration // for how long a message is due at the least, rounded up to a millisecond
	Inbox  string        // a channel that waits for the topic if there are fewer than Max; empty: none does
}

// Claimed is what one claim brought.
type Claimed struct {
	Messages []ClaimedMessage
	Lease    time.Duration // of each of them
	Buried   []Buried      // instead: expired, without a record, or of another topic
	Short    bool          // there were fewer than asked for: the inbox waits now
	Ripe     time.Duration // where there are none: in how long the oldest that is ready has the age; less than zero: none is ready
}

// A ClaimedMessage is a message that was claimed.
type ClaimedMessage struct {
	Lease
	Due    time.Time // since when it is ready; zero where that is foreign
	Used   int       // attempts used up; zero where that is foreign
	Record string    // see [DecodeRecord]
}

// Claim leases up to c.Max ready messages of a topic that are due for c.MinAge at
// least, oldest due first, and none while it is paused. The error is that of the
// connection, after which messages may be leased.
func (s Shard) Claim(ctx context.Context, c Claim) (Claimed, error) {
	r, err := s.run(ctx, claimScript, c.Topic, c.Max, c.Lease.Milliseconds(), ceilMs(c.MinAge), c.Inbox)
	if err != nil {
		return Claimed{}, err
	}
	got := Claimed{Short: r.flag(), Lease: ms(r.integer())}
	got.Messages = r.claimed(r.integer())
	for l := r.list(); l.more(); {
		got.Buried = append(got.Buried, Buried{Member: l.text(), Reason: l.text()})
	}
	got.Ripe = time.Duration(r.integer()) * time.Millisecond
	return got, r.end()
}

// claimed reads members with due times, records and attempts. A record that is
// missing is that of a member which was buried.
func (r *reply) claimed(receipt int64) []ClaimedMessage {
	found, records, attempts := r.list(), r.list(), r.list()
	counted := attempts.more()
	all := make([]ClaimedMessage, 0, records.left())
	for records.more() {
		m := ClaimedMessage{Lease: Lease{Member: found.text(), Receipt: receipt}, Due: timeOf(found.text())}
		if counted {
			if count, used := attempts.maybe(); used {
				m.Used, _ = strconv.Atoi(count)
				m.Receipt = WithDigit(receipt, receipt+digitOf(count))
			}
		}
		var there bool
		if m.Record, there = records.maybe(); there {
			all = append(all, m)
		}
	}
	_ = attempts.end() // what does not fit into one reply was found, and has no record
	return all
}

// WithDigit returns a receipt with the last digit of another, which an extension
// keeps. It is receipt_of of lua/shared/leases.lua.
func WithDigit(receipt, of int64) int64 { return receipt - receipt%10 + of%10 }

// digitOf returns the last digit of a count, 0 where that is foreign. It is digit_of of lua/shared/leases.lua.
func digitOf(count string) int64 {
	if count == "" || strings.Trim(count, "0123456789") != "" {
		return 0
	}
	return int64(count[len(count)-1] - '0')
}
