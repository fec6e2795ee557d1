package carrier

import "time"

// bound is how long the loop takes at most to come around, elected or standing by,
// and whatever becomes of Redis. It is one call to Redis, which is given up after
// callTimeout, the longest sleep between two calls (pollPause and electJitter), the
// last call of a term (resignTimeout), and a second for a busy machine. It does not
// depend on the lease.
const bound = callTimeout + pollPause + resignTimeout + time.Second

const (
	callTimeout = 8 * time.Second // for one call: to connect, 2 s, write and read, 3 s each
	pollPause   = 5 * time.Second // longest wait of a standby between two attempts to be elected
)

// State is what a carrier does at the moment, by the clock of this machine.
type State struct {
	Shard    int       // number of the shard
	Carrying bool      // it is elected, as far as it knows: while it cannot reach Redis it may be deposed
	Epoch    int64     // number of its last election; zero: it never was elected
	Since    time.Time // when it was elected, or began to stand by; zero: Run was not called yet
	Heard    int64     // epoch of the carrier, in any process, of the last beat received; zero: none was for twice the lease
	Progress time.Time // when its loop last came around; zero: it does not run

	Kept     int64         // messages, dead ones too, and broadcasts in the store, by a look every tenth beat; zero while standing by
	Lateness time.Duration // of the last message made ready: from its due time until then, in us

	Moved     int64 // messages made ready and broadcasts sent, since New
	Fallbacks int64 // calls with Carried.Fallback, since New
	Repeated  int64 // topics for which a beat rang again, since New, because a subscriber had not claimed within 50 ms of its ring: that was lost, or it hangs

	HandedOver int64 // messages that it leased to a waiting subscriber and sent along, in place of a ring, since New
	Lapsed     int64 // hand-overs, its own and those of publishers, that no subscriber confirmed within a second, since New

	DeadRemoved     int64 // dead letters that the housekeeping removed, since New
	TopicsForgotten int64 // topics that the housekeeping forgot, since New
}

// State returns what the carrier does. It is safe for concurrent use, and makes no call to Redis.
func (c *Carrier) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.state
	state.Progress = c.loop.Last()
	return state
}

// States returns what the carrier does for each shard, in their order. It is safe for
// concurrent use, and makes no call to Redis.
func (c *Carrier) States() []State { return []State{c.State()} }

// Alive returns an error if the carrier's loop is stuck, for watchdogs. It is nil
// while Redis cannot be reached, and while the carrier does not run.
func (c *Carrier) Alive() error { return c.loop.Alive() }

// Carried is what one call moved.
type Carried struct {
	Moved    int           // messages made ready, including those whose lease ended, and broadcasts sent
	Lateness []Lateness    // of the scheduled messages among them, earliest due first
	Took     time.Duration // how long the call took Redis

	// Fallback says that only the heartbeat found something that was more than 50 ms
	// late: its nudge was lost. That is certain once the beat is received, so such a
	// call is reported somewhat later.
	Fallback bool
}

// Lateness is the lateness of messages that were due at one time.
type Lateness struct {
	Late time.Duration // from the due time until they were ready, in us
	N    int           // number of messages
}

// setRole notes that the carrier was elected, or that it stands by if epoch is zero.
func (c *Carrier) setRole(epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Carrying, c.state.Since = epoch != 0, time.Now()
	c.state.Kept = 0
	if epoch != 0 {
		c.state.Epoch = epoch
	}
}

// setHeard sets the epoch of the last beat received; zero: none was for long.
func (c *Carrier) setHeard(epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Heard = epoch
}

// setKept sets how many messages and broadcasts the store holds.
func (c *Carrier) setKept(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Kept = n
}

// addRepeated counts rings that a beat repeated.
func (c *Carrier) addRepeated(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Repeated += n
}

// addHandovers counts hand-overs.
func (c *Carrier) addHandovers(handed, lapsed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.HandedOver += handed
	c.state.Lapsed += lapsed
}

// addSwept counts what a step of the housekeeping removed.
func (c *Carrier) addSwept(dead, topics int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.DeadRemoved += dead
	c.state.TopicsForgotten += topics
}

// addMoved counts what a call moved.
func (c *Carrier) addMoved(m Carried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Moved += int64(m.Moved)
	if n := len(m.Lateness); n > 0 {
		c.state.Lateness = m.Lateness[n-1].Late
	}
}

// report calls OnCarried, unless nothing was moved or m is nil.
func (c *Carrier) report(m *Carried) {
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
