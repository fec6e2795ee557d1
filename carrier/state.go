package carrier

import "time"

// bound is how long the loop takes at most to come around, elected or standing by,
// and whatever becomes of Redis. It is one call to Redis, which is given up after
// callTimeout, the longest sleep between two calls (lookPause and electJitter), the
// last call of a term (resignTimeout), and a second for a busy machine. It does not
// depend on the lease.
const bound = callTimeout + lookPause + resignTimeout + time.Second

const (
	callTimeout = 8 * time.Second // for one call: to connect, 2 s, write and read, 3 s each
	lookPause   = 5 * time.Second // between two looks of a standby, at the most
)

// State is what a carrier does at the moment, by the clock of this machine.
type State struct {
	Carrying bool      // it is elected, as far as it knows: while Redis is away it may be deposed
	Epoch    int64     // number of its last election; zero: it never was elected
	Since    time.Time // when it was elected, or began to stand by; zero: it was not run yet
	Heard    int64     // epoch of the carrier, of any process, whose beat was heard last; zero: none was for twice the lease
	Progress time.Time // when its loop last came around; zero: it does not run

	Kept     int64         // messages and broadcasts that there were at the last beat, dead ones too; zero while standing by
	Lateness time.Duration // of the last message moved: from its due time until it was ready, in us

	Moved     int64 // messages made ready and broadcasts sent, since New
	Fallbacks int64 // of Carried.Fallback, since New
	Repeated  int64 // topics for which a beat rang again, since New: who was rung had not claimed for more than 50 ms

	DeadRemoved     int64 // dead letters that the housekeeping removed, since New
	TopicsForgotten int64 // topics that it forgot, since New
}

// State returns what the carrier does. It is safe for concurrent use, and asks nothing of Redis.
func (c *Carrier) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state
	state.Progress = c.loop.Last()
	return state
}

// Alive returns an error if the loop of the carrier is stuck, for watchdogs. It is
// nil while Redis is away, and while the carrier does not run.
func (c *Carrier) Alive() error { return c.loop.Alive() }

// Carried is what one call moved.
type Carried struct {
	Moved    int           // messages that were made ready, those whose lease ended included, and broadcasts that were sent
	Lateness []Lateness    // of the scheduled messages among them, earliest due first
	Took     time.Duration // how long that took Redis

	// Fallback says that the heartbeat found something that was late by more
	// than 50 ms and that the carrier was not told of: its nudge was lost. It
	// is known when the beat is heard, so that this is told somewhat later.
	Fallback bool
}

// Lateness is of messages that were due at one time.
type Lateness struct {
	Late time.Duration // from the due time until they were ready, in us
	N    int           // messages
}

// stands takes note that the carrier stands by; it is elected where epoch is not zero.
func (c *Carrier) stands(epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Carrying, c.state.Since = epoch != 0, time.Now()
	c.state.Kept = 0
	if epoch != 0 {
		c.state.Epoch = epoch
	}
}

// heard takes note of which carrier is heard; zero: none.
func (c *Carrier) heard(epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Heard = epoch
}

// keeps takes note of how many messages and broadcasts there are.
func (c *Carrier) keeps(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Kept = n
}

// repeats takes note of rings that a beat repeated.
func (c *Carrier) repeats(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Repeated += n
}

// swept takes note of what a step of the housekeeping removed.
func (c *Carrier) swept(dead, topics int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.DeadRemoved += dead
	c.state.TopicsForgotten += topics
}

// moved takes note of what a call moved.
func (c *Carrier) moved(m Carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Moved += int64(m.Moved)
	if n := len(m.Lateness); n > 0 {
		c.state.Lateness = m.Lateness[n-1].Late
	}
}

// tell tells what was carried; nil is nothing.
func (c *Carrier) tell(m *Carried) {
	if m == nil || m.Moved == 0 {
		return
	}
	if m.Fallback {
		c.mu.Lock()
		c.state.Fallbacks++
		c.mu.Unlock()
	}
	if c.o.OnCarried != nil {
		c.o.OnCarried(*m)
	}
}
