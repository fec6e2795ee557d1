package carrier

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

const (
	turnOfOne = 5 * time.Millisecond   // for each shard that it carries a standby leaves a vacant one to others for so long,
	turn      = 100 * time.Millisecond // at most, and so long to the one that is named to take over
	spread    = 10 * time.Millisecond  // spreads the attempts of those that carry as many

	lookAgain = 200 * time.Millisecond // within which standbys tell how many shards the Carrier carries by now
)

// shares keep the shards shared out evenly among the Carriers of several processes. They
// know what this one carries; what others do is noted in each shard by those that stand by
// for it, and so the carrier of a shard sees who has fewer.
type shares struct {
	shards int

	mu      sync.Mutex
	carries int           // shards
	given   int           // shards given up as the Carrier stops
	evened  time.Time     // when it last handed one over to even out the shares
	changed chan struct{} // closed when carries changes
	heard   chan struct{} // closed when the home is heard again
}

func newShares(shards int) *shares {
	return &shares{shards: shards, changed: make(chan struct{}), heard: make(chan struct{})}
}

// now returns how many shards the Carrier carries, and a channel that is closed when that
// changes.
func (s *shares) now() (carries int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carries, s.changed
}

// add notes that the Carrier carries n more shards.
func (s *shares) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carries += n
	close(s.changed)
	s.changed = make(chan struct{})
}

// home returns a channel that is closed when the home is heard again.
func (s *shares) home() (heard <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// hearHome notes that the home is heard, maybe again.
func (s *shares) hearHome() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.heard)
	s.heard = make(chan struct{})
}

// giveTo reports whether to hand a shard over to a standby, nil if there is none: it
// carries at least two fewer, and the last such hand-over was a second ago.
func (s *shares) giveTo(other *store.Standby) bool {
	if other == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carries-other.Carries < 2 || time.Since(s.evened) < reach.Heartbeat {
		return false
	}
	s.evened = time.Now()
	return true
}

// giveUp returns how many shards the stopping Carrier gave up before.
func (s *shares) giveUp() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	return s.given - 1
}

// until returns how long a standby waits where another carrier's lease lasts so long.
func (s *shares) until(left time.Duration) time.Duration {
	if s.shards == 1 {
		return left + rand.N(electJitter)
	}
	return left + s.turn()
}

// after returns how long a standby leaves a shard to others that its carrier gave up: to
// the heir, if there is one.
func (s *shares) after(heir string) time.Duration {
	switch {
	case s.shards == 1:
		return 0
	case heir == "":
		return s.turn()
	}
	return turn + s.turn()
}

// turn returns for how long a standby leaves a vacant shard to those that carry fewer.
func (s *shares) turn() time.Duration {
	carries, _ := s.now()
	return min(time.Duration(carries)*turnOfOne, turn) + rand.N(spread)
}
