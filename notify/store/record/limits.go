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
// confirms it.
const HandoverLease = time.Second
