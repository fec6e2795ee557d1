package store

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
