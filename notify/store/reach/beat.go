package reach

import (
	"errors"
	"time"
)

// Heartbeat is the longest time between two beats of the carrier.
const Heartbeat = time.Second

// Silence is how long a subscription may receive nothing before it is taken for
// dead: three beats.
const Silence = 3 * Heartbeat

const maxSilence = 30 * time.Second

// Patience is how long Redis may leave the first call of a program unanswered, or
// the first beat may be missing, before that is logged.
const Patience = Silence - Heartbeat/2

// errSilent is why a connection ends that received no beat for too long.
var errSilent = errors.New("no beat was heard")
