package record

import "time"

// Limits of claims, and of what handles what was claimed.
const (
	MaxClaim       = 500 // messages in one claim
	MaxTopics      = 32  // topics of one claim
	MinLease       = 100 * time.Millisecond
	MaxLease       = 24 * time.Hour
	MaxWait        = 5 * time.Minute // of a claim
	MaxConcurrency = 10_000
)

// HandoverLease is the lease of a message that is handed over, until the subscriber
// confirms it: a multiple of HandoverSpare. Only a test binary changes it, before it uses a
// store: there a machine that stands still for a second must not end a lease.
var HandoverLease = 900 * time.Millisecond

// HandoverSpare is how much longer that lease is, within half as much, once a carrier finds
// that it ended: what confirms it may have stood still as long as the carrier.
const HandoverSpare = 100 * time.Millisecond
