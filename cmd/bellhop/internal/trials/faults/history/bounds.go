package history

import "time"

// Bounds are the stated bounds. A bound of zero is not checked.
type Bounds struct {
	Attempts int           // default limit of attempts
	Ordered  []string      // topics with one worker of concurrency 1
	Late     time.Duration // lateness without a fault

	// Within After (by the kind of fault, or else Recovery) and Late from the heal of a
	// fault, waiting messages are handed out.
	After    map[string]time.Duration
	Recovery time.Duration

	Takeover map[string]time.Duration // by the kind of fault, or Kill or Stop: time until the next carrier's first beat
	Restarts []string                 // kinds of faults that restart Redis, too: that time counts from when they are made

	Parting []string // kinds of faults after which a carrier goes on until its clients are answered: that time counts from its last beat

	// Stood is for how long the machine stood still in a period, which each bound of time is stretched by; nil: never.
	Stood func(from, to time.Time) time.Duration

	Shards int           // of the store; zero: one
	Beside time.Duration // lateness of topics of Apart while a fault hits other shards
	Apart  []string      // topics of which messages are claimed by claims of no other topic

	Branches map[string][]string // of topics that have some, each as TOPIC@NAME

	Told      []string         // topics of which each handout without a fault is recorded, also those by others
	Limited   map[string]Limit // topics that have limits: how late their messages are is not checked
	Bulk      []string         // topics of which many messages are due at once, and wait for hands: the same
	Pushed    []string         // topics of which each handout is a request to a URL, which may have to wait until its endpoint works: the same
	PushedAll []string         // topics of which each broadcast is pushed to a URL

	Spares []string // kinds of faults that give back no message that a handler has, and use up no attempt
}

// A Limit is what the settings of a topic allow.
type Limit struct {
	Concurrency int // messages that are leased at once
	PerSecond   int // messages that are claimed
	Burst       int // at once
}
