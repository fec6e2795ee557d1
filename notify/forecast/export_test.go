package forecast

import "time"

// Keep sets how long a cache keeps a forecast.
func (c *Cache) Keep(d time.Duration) {
	c.kept = func(time.Duration) time.Duration { return d }
}

// KeptFor returns how long a cache keeps a forecast that took so long to count.
var KeptFor = keptFor

// Len returns how many forecasts a cache holds.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// MostKept is how many forecasts a cache keeps.
const MostKept = mostKept
