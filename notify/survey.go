package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// A Survey is what a store holds in all, and which of its topics stand out.
type Survey = store.Survey

// A Notable is a topic that stands out, and the time by which it does.
type Notable = store.Notable

const (
	mostNotable  = 500 // names in each list of a survey
	notablePage  = 100 // topics read in one call, which takes Redis less than a millisecond
	notablePages = 40  // pages read for one list if much of its index is out of date
)

// Survey returns a summary of a store. It reads indexes, so it takes as long with a
// million topics as with ten. Each list has up to most names, at most 500. The indexes
// of ready messages and of deaths may be out of date. What a survey lists is true, but
// if more of an index is out of date than it reads, it may leave out a topic until
// later surveys have corrected the rest. Errors: ErrInvalid, or that of the connection.
func (i *Inspector) Survey(ctx context.Context, most int) (Survey, error) {
	if most < 1 || most > mostNotable {
		return Survey{}, store.Faultf("most", "number of topics %d: use 1 to %d", most, mostNotable)
	}
	s, err := i.survey(ctx, most)
	if err != nil {
		return Survey{}, fmt.Errorf("survey: %w", err)
	}
	return s, nil
}

func (i *Inspector) survey(ctx context.Context, most int) (s Survey, err error) {
	if s, err = i.store.Only().Survey(ctx, most); err != nil {
		return s, err
	}
	if s.Overdue, err = i.notable(ctx, false, most); err != nil {
		return s, err
	}
	s.Overdue = slices.DeleteFunc(s.Overdue, func(n Notable) bool { return n.Since.After(s.Now) }) // possible if the clock was set back
	s.Deaths, err = i.notable(ctx, true, most)
	return s, err
}

// notable returns the topics that come first by their oldest ready message, or by
// their newest dead letter. A time in the index may be wrong only in the direction that
// puts a topic too far in front, so nothing behind a page comes before it.
func (i *Inspector) notable(ctx context.Context, dead bool, most int) ([]Notable, error) {
	before := time.Time.Compare
	if dead {
		before = func(a, b time.Time) int { return b.Compare(a) }
	}
	found := make(map[string]time.Time)
	var all []Notable
	for rank, pages := int64(0), 0; pages < notablePages; pages++ {
		page, err := i.store.Only().Notable(ctx, dead, rank, notablePage)
		if err != nil {
			return nil, err
		}
		rank = page.Next
		for _, n := range page.Found {
			found[n.Topic] = n.Since
		}
		all = sorted(found, before)
		if page.Checked < notablePage || len(all) >= most && before(all[most-1].Since, page.Last) <= 0 {
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
