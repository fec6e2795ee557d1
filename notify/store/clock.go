package store

import (
	"context"
	"slices"
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

// Now returns the time by Redis's clock, by which all times of messages are: never a later
// one. A process reckons it by its own clock for two seconds before it asks again: of several
// shards the first one that answers. While none does, it goes on reckoning. The error says
// why Redis did not tell it yet; beside it is this host's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if s.clock.due() {
		err = s.askTime(ctx)
	}
	if now = s.clock.now(); now.IsZero() {
		return time.Now(), err
	}
	return now, nil
}

// askTime sets the clock by the first shard that answers. Those in trouble are asked last.
func (s *Store) askTime(ctx context.Context) (err error) {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	away := func(d *shard) bool { return d.inTrouble() != nil }
	well := slices.DeleteFunc(slices.Clone(all), away)
	if len(well) == 0 {
		well = all
	}
	for _, d := range well {
		told, no := d.handle().Time(ctx)
		if no == nil {
			s.clock.set(told)
			return nil
		}
		err = d.explain(ctx, no)
	}
	return err
}

// heed sets the clock by what a script answered, where that is of the first shard: of several
// masters each has a clock of its own.
func (s Shard) heed(now time.Time) {
	if s.Number() == 0 {
		s.store.clock.set(now)
	}
}
