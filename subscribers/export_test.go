package subscribers

import "time"

// ListenerBound is how long the loop of a listener takes at most to come around.
const ListenerBound = listenerBound

// Bound returns the longest wait after an attempt.
func (b Backoff) Bound(attempt int) time.Duration { return b.bound(attempt) }

// Delay returns a random wait after an attempt.
func (b Backoff) Delay(attempt int) time.Duration { return b.delay(attempt) }
