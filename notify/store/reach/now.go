package reach

import (
	"context"
	"slices"
	"time"
)

// Now returns the time by Redis's clock, by which all times of messages are: never a later
// one. A process reckons it by its own clock for two seconds before it asks again: of several
// shards the first one that answers. While none does, it goes on reckoning. The error says
// why Redis did not tell it yet; beside it is this host's time.
func (s *Redis) Now(ctx context.Context) (now time.Time, err error) {
	if s.clock.due() {
		err = s.askTime(ctx)
	}
	if now = s.clock.now(); now.IsZero() {
		return time.Now(), err
	}
	return now, nil
}

// askTime sets the clock by the first shard that answers. Those in trouble are asked last.
func (s *Redis) askTime(ctx context.Context) (err error) {
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
		var told time.Time
		if told, err = d.handle().Time(ctx); err == nil {
			s.clock.set(told)
			return nil
		}
	}
	return err
}

// Heed sets the clock by what a script answered, where that is of the first shard: of several
// masters each has a clock of its own.
func (s Shard) Heed(now time.Time) {
	if s.Number() == 0 {
		s.redis.clock.set(now)
	}
}
