package carrier

import (
	"time"
)

// State is what a carrier does at the moment, by the clock of this machine.
type State struct {
	Shard    int           // number of the shard
	Carrying bool          // it is elected, as far as it knows: while it cannot reach Redis it may be deposed
	Epoch    int64         // number of its last election; zero: it never was elected
	Since    time.Time     // when it was elected, or began to stand by; zero: Run was not called yet
	Heard    int64         // epoch of the carrier, in any process, of the last beat received; zero: none was for twice the lease
	Ahead    time.Duration // how far Redis's clock is ahead of this machine's, as the last two beats that agreed told
	Progress time.Time     // when its loop last came around; zero: it does not run

	Kept     int64         // messages, dead ones too, and broadcasts in the store, by a look every tenth beat; zero while standing by
	Stopped  int           // schedules that make nothing until Redis's clock is as late again as when they were filled; zero while standing by
	Lateness time.Duration // of the last message made ready: from its due time until then, in us

	Moved     int64 // messages made ready and broadcasts sent, since New
	Fallbacks int64 // calls with Carried.Fallback, since New
	Repeated  int64 // topics for which a beat rang again, since New, because a subscriber had not claimed within 50 ms of its ring: that was lost, or it hangs

	HandedOver int64 // messages that it leased to a waiting subscriber and sent along, in place of a ring, since New
	Lapsed     int64 // hand-overs, its own and those of publishers, that no subscriber confirmed within a second, since New

	DeadRemoved     int64 // dead letters that the housekeeping removed, since New
	TopicsForgotten int64 // topics that the housekeeping forgot, since New
}

// now returns the state.
func (m *mover) now() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	state.Shard, state.Progress = m.shard.Number(), m.loop.Last()
	return state
}

// setRole notes that the carrier was elected, or that it stands by if epoch is zero.
func (m *mover) setRole(epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Carrying, m.state.Since = epoch != 0, time.Now()
	m.state.Kept, m.state.Stopped = 0, 0
	if epoch != 0 {
		m.state.Epoch = epoch
	}
}

// setHeard sets the epoch of the last beat received; zero: none was for long.
func (m *mover) setHeard(epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Heard = epoch
}

// setAhead sets how far Redis's clock is ahead.
func (m *mover) setAhead(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Ahead = d
}

// setKept sets how many messages and broadcasts the store holds.
func (m *mover) setKept(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Kept = n
}

// setStopped sets how many schedules are stopped by a clock that was ahead.
func (m *mover) setStopped(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Stopped = n
}

// addRepeated counts rings that a beat repeated.
func (m *mover) addRepeated(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Repeated += n
}

// addHandovers counts hand-overs.
func (m *mover) addHandovers(handed, lapsed int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.HandedOver += handed
	m.state.Lapsed += lapsed
}

// addSwept counts what a step of the housekeeping removed.
func (m *mover) addSwept(dead, topics int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.DeadRemoved += dead
	m.state.TopicsForgotten += topics
}

// addMoved counts what a call moved.
func (m *mover) addMoved(c Carried) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Moved += int64(c.Moved)
	if n := len(c.Lateness); n > 0 {
		m.state.Lateness = c.Lateness[n-1].Late
	}
}

// report calls OnCarried, unless nothing was moved or c is nil.
func (m *mover) report(c *Carried) {
	if c == nil || c.Moved == 0 {
		return
	}
	if c.Fallback {
		m.mu.Lock()
		m.state.Fallbacks++
		m.mu.Unlock()
	}
	if m.o.OnCarried != nil {
		m.o.OnCarried(*c)
	}
}
