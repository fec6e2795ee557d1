package forecast

import (
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// How much of schedules is counted.
const (
	MaxSchedules = 10_000 // that are read, an equal part of each shard, those first that fire first
	MaxOfOne     = 1_000  // occurrences of a schedule

	leastSchedules = 1_000   // that are read of a shard, however many there are
	mostInAll      = 500_000 // occurrences of all schedules: it takes some half a second to compute their times
	schedulesAt    = 100     // that are read in a call
)

// recurring is the schedules that were read of a shard.
type recurring struct {
	rules []store.Listed
	most  int       // that are read
	left  bool      // there are others
	until time.Time // before which these fire none that is not made; zero: there are no others
}

// readAll reads the schedules of all topics that are wanted, as far as they fire before the last bucket ends: in the order in which the carrier looks at
// them, which it does before one fires whose occurrence is not made.
func (t *tally) readAll(ctx context.Context) error {
	if t.schedules == 0 || t.dead {
		return nil
	}
	var after store.Mark
	var last time.Time
	read := make(map[string]bool) // one that is filled meanwhile comes again: what was made since is not among the messages
	for n := 0; n < t.most; n += schedulesAt {
		var page store.SchedulePage
		_, err := store.Paced(ctx, func(ctx context.Context) (err error) {
			page, err = t.shard.AllSchedules(ctx, schedulesAt, after)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Schedules {
			one := &page.Schedules[i]
			if last = one.Look; last.IsZero() || !last.Before(t.end()) { // as all behind it
				return nil
			}
			if !t.wants(one.Schedule.Topic) {
				continue
			}
			if name := record.Member(one.Schedule.Topic, one.Schedule.Name); !read[name] {
				read[name] = true
				t.rules = append(t.rules, one.Listed)
			}
		}
		if after = page.Next; after == (store.Mark{}) {
			return nil
		}
	}
	t.left, t.until = true, last
	return nil
}

// readOf reads the schedules of some topics.
func (t *tally) readOf(ctx context.Context, topics []string) error {
	if t.schedules == 0 || t.dead {
		return nil
	}
	for _, topic := range topics {
		known := make(map[string]bool)
		for cursor, more := "", true; more; more = cursor != "" {
			if len(t.rules) >= t.most {
				t.left, t.until = true, t.now()
				return nil
			}
			var page []store.Listed
			_, err := store.Paced(ctx, func(ctx context.Context) (err error) {
				page, cursor, err = t.shard.BareSchedules(ctx, topic, cursor)
				return err
			})
			if err != nil {
				return err
			}
			for i := range page {
				if name := page[i].Schedule.Name; !known[name] { // a page may have what another had
					known[name] = true
					t.rules = append(t.rules, page[i])
				}
			}
		}
	}
	return nil
}

// now returns the time of the forecast, and end that at which its last bucket ends.
func (c *count) now() time.Time { return time.UnixMilli(c.edges[0] - 1).UTC() }
func (c *count) end() time.Time { return time.UnixMilli(c.edges[c.Count]).UTC() }

// recur counts what the schedules that were read are to make, and did not yet.
func (c *count) recur() {
	if len(c.fire) == 0 {
		return
	}
	c.sum.Recurring = make([]int64, c.Count)
	most := min(MaxOfOne, max(mostInAll/len(c.fire), 1))
	for i := range c.fire {
		c.sum.cut(c.recurOne(&c.fire[i], most))
	}
}

// recurOne counts up to so many occurrences of a schedule. It returns when the first fires that it leaves out; zero: it has all.
func (c *count) recurOne(l *store.Listed, most int) time.Time {
	if l.Err != nil || !l.State.Refused.IsZero() {
		return time.Time{}
	}
	n := 0
	for at, isMade := range l.Schedule.Fires(&l.State, c.now()) {
		switch {
		case !at.Before(c.end()):
			return time.Time{}
		case isMade: // its message is counted
			continue
		case n == most:
			return at
		}
		n++
		i, is := slices.BinarySearch(c.edges, l.Schedule.DueOf(at).UnixMilli())
		if is {
			i++
		}
		if i > 0 && i <= c.Count { // else its jitter has it fall due behind the last bucket
			c.sum.Recurring[i-1]++
		}
	}
	return time.Time{}
}

// cut notes when the first occurrence fires that is left out; zero: none is.
func (f *Forecast) cut(at time.Time) {
	if at.IsZero() || !f.RecurringUntil.IsZero() && f.RecurringUntil.Before(at) {
		return
	}
	f.RecurringUntil = at.UTC()
}
