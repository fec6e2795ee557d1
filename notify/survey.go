package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Survey is what a store holds in all, and which of its topics stand out.
type Survey = store.Survey

// A Notable is a topic that stands out, and the time by which it does.
type Notable = store.Notable

const (
	mostNotable  = 500 // names in each list of a survey
	notablePages = 40  // pages read for one list if much of its index is out of date
)

// Survey returns a summary of a store. It reads indexes, so it takes as long with a
// million topics as with ten. Each list has up to most names, at most 500. The indexes
// of ready messages and of deaths may be out of date. What a survey lists is true, but
// if more of an index is out of date than it reads, it may leave out a topic until
// later surveys have corrected the rest. Each shard is looked at by itself, not all at one
// moment. Errors: ErrInvalid, or that of the connection; or a [MissingError] beside the
// summary of the other shards.
func (i *Inspector) Survey(ctx context.Context, most int) (Survey, error) {
	if most < 1 || most > mostNotable {
		return Survey{}, fault.New("most", "number of topics %d: use 1 to %d", most, mostNotable)
	}
	parts, err := store.Gather(ctx, i.store, func(ctx context.Context, shard store.Shard) (Survey, error) {
		return survey(ctx, shard, most)
	})
	if err != nil {
		err = fmt.Errorf("survey: %w", err)
	}
	if len(parts) == 0 {
		return Survey{}, err
	}
	return sumOf(parts, most), err
}

// survey returns the survey of one shard.
func survey(ctx context.Context, shard store.Shard, most int) (s Survey, err error) {
	ctx = store.AheadOfSurvey(ctx, []store.Shard{shard}, most)
	if s, err = shard.Survey(ctx, most); err != nil {
		return s, err
	}
	if s.Overdue, err = notable(ctx, shard, false, most); err != nil {
		return s, err
	}
	s.Overdue = slices.DeleteFunc(s.Overdue, func(n Notable) bool { return n.Since.After(s.Now) }) // possible if the clock was set back
	s.Deaths, err = notable(ctx, shard, true, most)
	return s, err
}

// sumOf returns the survey of several shards: at the latest of their times.
func sumOf(parts []Survey, most int) Survey {
	sum := parts[0]
	if len(parts) == 1 {
		return sum
	}
	for _, part := range parts[1:] {
		for total, n := range map[*int64]int64{
			&sum.Topics: part.Topics, &sum.Messages: part.Messages, &sum.Leased: part.Leased, &sum.Dead: part.Dead, &sum.Broadcasts: part.Broadcasts,
			&sum.Published: part.Published, &sum.Acked: part.Acked, &sum.Died: part.Died, &sum.Sent: part.Sent, &sum.Dropped: part.Dropped, &sum.Schedules: part.Schedules, &sum.Pushes: part.Pushes, &sum.Grouped: part.Grouped,
		} {
			*total += n
		}
		if part.Now.After(sum.Now) {
			sum.Now = part.Now
		}
	}
	merged := func(before func(a, b time.Time) int, list func(Survey) []Notable) []Notable {
		found := make(map[string]time.Time)
		for _, part := range parts {
			for _, n := range list(part) {
				found[n.Topic] = n.Since
			}
		}
		all := sorted(found, before)
		return all[:min(len(all), most)]
	}
	sum.Overdue = merged(time.Time.Compare, func(s Survey) []Notable { return s.Overdue })
	sum.Behind = merged(time.Time.Compare, func(s Survey) []Notable { return s.Behind })
	sum.Blocked = merged(time.Time.Compare, func(s Survey) []Notable { return s.Blocked })
	sum.Paused = merged(time.Time.Compare, func(s Survey) []Notable { return s.Paused })
	sum.Deaths = merged(latestFirst, func(s Survey) []Notable { return s.Deaths })
	sum.Busy = merged(latestFirst, func(s Survey) []Notable { return s.Busy })
	return sum
}

// latestFirst compares times of a list with the latest first.
func latestFirst(a, b time.Time) int { return b.Compare(a) }

// notable returns the topics of a shard that come first by their oldest ready message, or by
// their newest dead letter. A time in the index may be wrong only in the direction that
// puts a topic too far in front, so nothing behind a page comes before it.
func notable(ctx context.Context, shard store.Shard, dead bool, most int) ([]Notable, error) {
	before := time.Time.Compare
	if dead {
		before = latestFirst
	}
	found := make(map[string]time.Time)
	var all []Notable
	for rank, pages := int64(0), 0; pages < notablePages; pages++ {
		page, err := shard.Notable(ctx, dead, rank, store.PageOfNotable)
		if err != nil {
			return nil, err
		}
		rank = page.Next
		for _, n := range page.Found {
			found[n.Topic] = n.Since
		}
		all = sorted(found, before)
		if page.Checked < store.PageOfNotable || len(all) >= most && before(all[most-1].Since, page.Last) <= 0 {
			break
		}
	}
	return all[:min(len(all), most)], nil
}

// sorted returns topics by their times.
func sorted(found map[string]time.Time, before func(a, b time.Time) int) []Notable {
	all := make([]Notable, 0, len(found))
	for topic, since := range found {
		all = append(all, Notable{Topic: topic, Since: since})
	}
	slices.SortFunc(all, func(a, b Notable) int { return cmp.Or(before(a.Since, b.Since), cmp.Compare(a.Topic, b.Topic)) })
	return all
}
