package forecast

import (
	"context"
	"slices"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// topicsAtOnce is the most topics of one call: it counts as many of them as a millisecond allows.
const topicsAtOnce = 100

// A count is a forecast under way.
type count struct {
	Options
	dead  bool    // dead letters are counted, by when they died
	edges []int64 // in ms: now, or where the first bucket of dead letters begins, and the ends of all buckets; nil: no shard has said what time it is
	sum   Forecast
	fire  []store.Listed // schedules of the topics, of all shards
}

// shards counts in one shard after the other, so that shards on one server do not take
// turns without a pause. Shards that do not answer are missing.
func (c *count) shards(ctx context.Context, s *notify.Store) error {
	shards, err := s.Shards(ctx)
	if err != nil {
		return err
	}
	topics, named := c.named()
	if named {
		shards = slices.DeleteFunc(shards, func(shard store.Shard) bool {
			return !slices.ContainsFunc(topics, func(topic string) bool { return s.Of(topic).Number() == shard.Number() })
		})
	}
	missing := &store.MissingError{}
	for _, shard := range shards {
		part := tally{count: c, shard: shard, messages: make([]int64, c.Count+2), broadcasts: make([]int64, c.Count+2)}
		part.most = max(MaxSchedules/len(shards), leastSchedules)
		if err := part.run(ctx, topics, named); err != nil {
			missing.Add(shard, err)
			continue
		}
		c.sum.add(part)
		c.fire = append(c.fire, part.rules...)
	}
	c.recur()
	return missing.Among(len(shards))
}

// add adds what a shard counted.
func (f *Forecast) add(part tally) {
	last := len(f.Counts)
	f.Overdue += part.messages[0]
	f.Later += part.messages[last+1]
	for i := range f.Counts {
		f.Counts[i] += part.messages[i+1]
	}
	for i := range f.Broadcasts {
		f.Broadcasts[i] += part.broadcasts[i+1]
	}
	f.SchedulesLeft = f.SchedulesLeft || part.left
	f.cut(part.until)
}

// begin sets the edges by the clock of the first shard that answers. What is due at this
// millisecond is due already.
func (c *count) begin(ctx context.Context, shard store.Shard) error {
	if c.edges != nil {
		return nil
	}
	now, err := shard.Time(ctx)
	if err != nil {
		return err
	}
	c.sum.From = c.Options.begin(now)
	first := now.UnixMilli() + 1
	if c.dead {
		c.sum.From = c.sum.Begin(1 - c.Count)
		first = c.sum.From.UnixMilli()
	}
	c.edges = append(c.edges, first)
	for i := range c.Count {
		c.edges = append(c.edges, c.sum.Begin(i+1).UnixMilli())
	}
	return nil
}

// A tally is the count of one shard: what is due before the first edge, between each edge
// and the next, and behind the last.
type tally struct {
	*count
	shard                store.Shard
	messages, broadcasts []int64

	schedules int // of all topics of the shard
	recurring
}

// run counts the named topics of the shard, or all that are wanted, and reads their schedules.
func (t *tally) run(ctx context.Context, topics []string, named bool) error {
	if err := t.begin(ctx, t.shard); err != nil {
		return err
	}
	if !named {
		if err := t.addWanted(ctx); err != nil {
			return err
		}
		return t.readAll(ctx)
	}
	topics = slices.DeleteFunc(slices.Clone(topics), func(topic string) bool {
		return t.shard.Store().Of(topic).Number() != t.shard.Number()
	})
	if err := t.add(ctx, t.messages, topics); err != nil {
		return err
	}
	return t.readOf(ctx, topics)
}

// addWanted counts all topics that are wanted.
func (t *tally) addWanted(ctx context.Context) error {
	seen, added := make(map[string]bool), false
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, next, err := t.shard.Scheduled(ctx, cursor)
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(topic string) bool { return seen[topic] || !t.wants(topic) })
		for _, topic := range page {
			seen[topic] = true
		}
		if len(page) > 0 {
			err, added = t.add(ctx, t.messages, page), true
		}
		if cursor = next; err != nil {
			return err
		}
	}
	if added && !t.isAll() {
		return nil
	}
	return t.add(ctx, t.broadcasts, nil) // which also says how many schedules there are
}

// add counts topics, or the broadcasts of all, some edges at a time.
func (t *tally) add(ctx context.Context, to []int64, topics []string) error {
	const step = store.MaxEdges - 1
	read := t.shard.Forecast
	if t.dead {
		read = t.shard.Deaths
	}
	for from := 0; from < t.Count; from += step {
		edges := t.edges[from : min(from+step, t.Count)+1]
		for rest, more := topics, true; more; more = len(rest) > 0 {
			_, err := store.Paced(ctx, func(ctx context.Context) error {
				counted, err := read(ctx, edges, rest[:min(len(rest), topicsAtOnce)])
				if err == nil {
					t.note(to, from, counted.Sums)
					rest, t.schedules = rest[counted.Topics:], counted.Schedules
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// note adds the sums of a call to those of all. from is the index of its first edge.
func (t *tally) note(to []int64, from int, sums []int64) {
	last := len(sums) - 1
	if from == 0 {
		to[0] += sums[0]
	}
	for i, n := range sums[1:last] {
		to[from+1+i] += n
	}
	if from+last-1 == t.Count {
		to[t.Count+1] += sums[last]
	}
}
