package reach

import (
	"sync"
	"time"
)

// clockFor is for how long a process reckons Redis's clock by its own before it asks again,
// since either may be set. One that carries never asks: each beat tells.
const clockFor = 2 * Heartbeat

// A clock is Redis's clock as its last answer tells. The zero clock was never told.
type clock struct {
	mu    sync.Mutex
	told  time.Time // by Redis
	read  time.Time // when its answer came, by the monotonic clock of this process
	asked time.Time // when Redis was asked last, or told it unasked
}

func (c *clock) set(told time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.told, c.read, c.asked = told, now, now
}

// now returns Redis's time, zero if it never told it.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() {
		return time.Time{}
	}
	return c.told.Add(time.Since(c.read))
}

// due reports whether the caller is to ask Redis: where the time is known, one caller at
// a time does, so that no other waits while Redis is away.
func (c *clock) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.asked) < clockFor {
		return false
	}
	c.asked = time.Now()
	return true
}
