package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Handover is a message that became due alone while a subscriber waited, and was
// leased to it at once, for record.HandoverLease.
type Handover struct {
	Topic string
	At    int64         // when, in us by Redis's clock
	Full  time.Duration // lease of a claim, by the topic's settings
	ClaimedMessage
}

// Promise returns the receipt that a [Shard.Confirm] gives the message for a lease, a multiple
// of record.HandoverSpare, that counts from the hand-over on. It settles the message before that, too.
func (h Handover) Promise(lease time.Duration) int64 {
	return withDigit(h.At+lease.Microseconds(), h.Receipt)
}

// Handover returns the hand-over in a Received, and whether it is a whole one.
func (e Event) Handover() (h Handover, is bool) {
	line, raw, is := strings.Cut(e.Payload, "\n")
	fields := strings.SplitN(line, " ", 7)
	if !is || len(fields) < 7 {
		return h, false
	}
	used, size, known := strings.Cut(fields[4], "/")
	if known { // the attempts that failed stand before the record
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 || n > len(raw) || raw[n-1] != '\n' {
			return h, false
		}
		used, raw = used+"\n"+raw[:n-1], raw[n:]
	}
	receipt, handed := strings.CutSuffix(fields[2], ".5")
	h = Handover{Topic: fields[0], ClaimedMessage: ClaimedMessage{Lease: Lease{Member: record.Member(fields[0], fields[6]), Handed: handed}, Due: record.TimeOf(fields[3]), Record: raw}}
	h.Used, h.History = record.DecodeAttempts(used)
	var milliseconds int64
	for _, number := range []struct {
		to   *int64
		text string
	}{{&h.At, fields[1]}, {&h.Receipt, receipt}, {&milliseconds, fields[5]}} {
		n, err := strconv.ParseInt(number.text, 10, 64)
		if err != nil || n <= 0 {
			return h, false
		}
		*number.to = n
	}
	h.Full = time.Duration(milliseconds) * time.Millisecond
	return h, handed
}
