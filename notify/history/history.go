// Package history reads what a store's carriers noted of the past: how many messages were
// published, claimed, acknowledged and died, and how late they were claimed, in each second
// of the last hour, and each minute of the last week.
//
//	now, err := store.Now(ctx) // by Redis's clock
//	samples, err := history.Read(ctx, store, now.Add(-time.Hour), now)
//
// A carrier notes a second a second later, with its beat. What happened while no carrier was
// elected, and in the seconds of a takeover, is not noted. Counts are exact, but each bucket
// of a Histogram has up to 6 % more or less.
package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// How long a history goes back.
const (
	Fine  = time.Hour          // by second
	Whole = 7 * 24 * time.Hour // by minute
)

// A Sample is what happened in a span of time.
type Sample struct {
	Time  time.Time     // its beginning, in UTC
	Step  time.Duration // its length: a second or a minute, or that of In
	Noted time.Duration // how much of it is noted: less than Step in a minute of a takeover, and in the present one

	Published int64 // messages, not broadcasts
	Claimed   int64 // messages claimed or handed over, each as often as it was
	Acked     int64
	Died      int64
	Late      Histogram // how late those claimed were: from due to claimed, less the age that the claim asked for
}

// PerSecond returns how many of a count of the sample there were in each second that is noted.
func (s Sample) PerSecond(count int64) float64 {
	if s.Noted == 0 {
		return 0
	}
	return float64(count) / s.Noted.Seconds()
}

// add adds the part of some totals that the i-th of n seconds has, if all have the same.
func (s *Sample) add(t *store.Totals, i, n int64) {
	part := func(total int64) int64 { return total*(i+1)/n - total*i/n }
	s.Published += part(t.Published)
	s.Claimed += part(t.Claimed)
	s.Acked += part(t.Acked)
	s.Died += part(t.Died)
	for bucket, total := range t.Late {
		s.Late[bucket] += part(total)
	}
}

// Read returns the samples from a time on and before another, the oldest first: of seconds
// as far as these are noted, and of minutes before. Spans of which nothing is noted have no sample. The
// counts are those of all shards. Errors: ErrInvalid, or that of the connection; or a
// [store.MissingError] beside the samples of the other shards.
func Read(ctx context.Context, s *notify.Store, from, to time.Time) ([]Sample, error) {
	if !from.Before(to) {
		return nil, fault.New("from", "from %s: use a time before to, %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	parts, err := store.Gather(ctx, s, func(ctx context.Context, shard store.Shard) (part, error) { return read(ctx, shard, from, to) })
	if err != nil {
		err = fmt.Errorf("read history: %w", err)
	}
	return sumOf(parts, unix(from)), err
}

// A part is what one shard noted.
type part struct {
	fine             int64 // Unix second from which on there are seconds: a whole minute
	minutes, seconds []store.Sample
}

// read reads the history of one shard.
func read(ctx context.Context, shard store.Shard, from, to time.Time) (p part, err error) {
	now, err := shard.Time(ctx)
	if err != nil {
		return p, err
	}
	p.fine = now.Add(-Fine).Truncate(time.Minute).Unix() + 60
	first, last := unix(from), min(unix(to), now.Unix()) // behind it, the clock was set back
	if p.minutes, err = shard.History(ctx, store.Minutes, first, min(last, p.fine)); err != nil {
		return p, err
	}
	p.seconds, err = shard.History(ctx, store.Seconds, max(first, p.fine), last)
	return p, err
}

// unix returns a time in seconds, rounded up.
func unix(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// sumOf adds up what all shards noted, from a Unix second on.
func sumOf(parts []part, from int64) (all []Sample) {
	sum := make(sums)
	for _, p := range parts { // shards may differ by a minute
		from = max(from, p.fine)
	}
	for _, p := range parts {
		for _, m := range p.minutes {
			sum.at(m.At, time.Minute, m.Seconds).add(&m.Totals, 0, 1)
		}
		for _, s := range p.seconds {
			sum.spread(s, from)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(sum)) {
		all = append(all, *sum[at])
	}
	return all
}

// sums are samples by the Unix second at which they begin.
type sums map[int64]*Sample

// at returns the sample of a time, of which a shard has noted some seconds.
func (s sums) at(second int64, step time.Duration, noted int) *Sample {
	if s[second] == nil {
		s[second] = &Sample{Time: time.Unix(second, 0).UTC(), Step: step}
	}
	one := s[second]
	one.Noted = max(one.Noted, min(time.Duration(noted)*time.Second, step))
	return one
}

// spread spreads a sample over the seconds that it covers. What is before a time belongs to minutes.
func (s sums) spread(one store.Sample, from int64) {
	n := max(int64(one.Seconds), 1)
	for i := range n {
		second := one.At - n + 1 + i
		if second >= from {
			s.at(second, time.Second, 1).add(&one.Totals, i, n)
		} else if one.At < from && i == 0 {
			s.at(one.At-one.At%60, time.Minute, 60).add(&one.Totals, 0, 1)
		}
	}
}

// In adds samples up in steps of a length, which begin at whole multiples of it. Spans of
// which nothing is noted have no sample.
func In(step time.Duration, samples []Sample) (all []Sample) {
	for _, one := range samples {
		begin := one.Time.Truncate(step)
		if len(all) == 0 || !all[len(all)-1].Time.Equal(begin) {
			all = append(all, Sample{Time: begin, Step: step})
		}
		sum := &all[len(all)-1]
		sum.Noted += one.Noted
		sum.Published += one.Published
		sum.Claimed += one.Claimed
		sum.Acked += one.Acked
		sum.Died += one.Died
		sum.Late.Add(one.Late)
	}
	return all
}
