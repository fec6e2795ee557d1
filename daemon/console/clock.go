package console

import (
	"context"
	"sync/atomic"
	"time"
)

// A clock is Redis's clock, as far as the last survey tells. The zero clock is the daemon's own.
type clock struct{ ahead atomic.Int64 } // of the daemon's clock, in nanoseconds

// set notes the time of Redis at a time of the daemon.
func (c *clock) set(redis, own time.Time) { c.ahead.Store(int64(redis.Sub(own))) }

// at returns the time of Redis at a time of the daemon.
func (c *clock) at(own time.Time) time.Time { return own.Add(time.Duration(c.ahead.Load())) }

// now returns the time by Redis's clock, by which all times of messages are. While Redis is away it is
// reckoned from the last survey.
func (c *Console) now(ctx context.Context) time.Time {
	_, _ = c.snapshots.survey(ctx) // what the page reads beside it tells the fault
	return c.snapshots.clock.at(time.Now())
}
