package notify

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

var (
	//go:embed survey.lua
	surveySource string
	surveyScript = store.NewScript("survey", surveySource)

	//go:embed notable.lua
	notableSource string
	notableScript = store.NewScript("notable", notableSource)
)

// A Survey is what a store holds in all, and which of its topics stand out.
type Survey struct {
	Topics   int64 // that are remembered
	Messages int64 // in any place, dead letters and broadcasts that wait included

	Leased, Dead, Broadcasts int64 // of them; broadcasts that wait

	Published, Acked, Died, Sent int64 // ever, of all topics, those that were forgotten too

	Overdue []Notable // topics by their oldest ready message, the oldest first; none that is paused
	Behind  []Notable // topics of which something scheduled is overdue, since the carrier is behind; the oldest first
	Deaths  []Notable // topics by their newest dead letter, the newest first
	Paused  []Notable // topics that are paused, the first that was paused first
	Busy    []Notable // topics that were published to lately, those with much traffic first, roughly

	Now time.Time // by Redis's clock
}

// A Notable is a topic that stands out, and the time by which it does.
type Notable struct {
	Topic string
	Since time.Time
}

const (
	mostNotable  = 500 // names in each list of a survey
	notablePage  = 100 // topics looked at in one call, which takes Redis less than a millisecond
	notablePages = 40  // looked at for one list, where much of its index is behind the truth
)

// Survey looks at a store as a whole. It reads indexes, so that it takes as long
// with a million topics as with ten. Each list has most names at the most, up to
// 500. The indexes of what is ready and of deaths may be behind the truth: what
// is listed is true, and where more of an index is behind than a survey looks at,
// a topic may be left out until the next ones have seen to the rest. Errors:
// ErrInvalid, or that of the connection.
func (p *Publisher) Survey(ctx context.Context, most int) (Survey, error) {
	if most < 1 || most > mostNotable {
		return Survey{}, Faultf("most", "number of topics %d: use 1 to %d", most, mostNotable)
	}
	s, err := p.survey(ctx, most)
	if err != nil {
		return Survey{}, fmt.Errorf("survey: %w", err)
	}
	return s, nil
}

func (p *Publisher) survey(ctx context.Context, most int) (s Survey, err error) {
	reply, err := p.store.Run(ctx, surveyScript, nil, most)
	if err != nil {
		return s, err
	}
	totals := []*int64{&s.Topics, &s.Messages, &s.Leased, &s.Dead, &s.Broadcasts, &s.Published, &s.Acked, &s.Died, &s.Sent}
	lists := []*[]Notable{&s.Behind, &s.Paused, &s.Busy}
	if len(reply) != len(totals)+1+len(lists) {
		return s, fmt.Errorf("survey script: %d fields", len(reply))
	}
	for i, total := range totals {
		*total = integer(reply[i])
	}
	s.Now = time.UnixMilli(integer(reply[len(totals)]))
	for i, list := range lists {
		fields, _ := reply[len(totals)+1+i].([]any)
		*list = notables(fields)
	}
	keys := p.store.Keys()
	if s.Overdue, err = p.notable(ctx, keys.ReadyTopics(), keys.Ready(""), false, most); err != nil {
		return s, err
	}
	s.Overdue = slices.DeleteFunc(s.Overdue, func(n Notable) bool { return n.Since.After(s.Now) }) // where the clock was set back
	s.Deaths, err = p.notable(ctx, keys.NewestDeaths(), keys.Dead(""), true, most)
	return s, err
}

// notable returns the topics that come first in an index, by the times that are
// true of them. The index may tell an earlier time than that, or a later one
// where the newest come first: so nothing behind a page of it comes before it.
func (p *Publisher) notable(ctx context.Context, index, places string, newest bool, most int) ([]Notable, error) {
	flag, before := 0, time.Time.Compare
	if newest {
		flag, before = 1, func(a, b time.Time) int { return b.Compare(a) }
	}
	found := make(map[string]time.Time)
	var all []Notable
	for rank, page := int64(0), 0; page < notablePages; page++ {
		reply, err := p.store.Run(ctx, notableScript, []string{index}, places, rank, notablePage, flag)
		if err != nil {
			return nil, err
		}
		if len(reply) < 3 {
			return nil, fmt.Errorf("notable script: %d fields", len(reply))
		}
		rank = integer(reply[0])
		for _, n := range notables(reply[3:]) {
			found[n.Topic] = n.Since
		}
		all = sorted(found, before)
		if integer(reply[1]) < notablePage || len(all) >= most && before(all[most-1].Since, time.UnixMilli(integer(reply[2]))) <= 0 {
			break
		}
	}
	return all[:min(len(all), most)], nil
}

// sorted returns topics by their times.
func sorted(found map[string]time.Time, before func(a, b time.Time) int) []Notable {
	all := make([]Notable, 0, len(found))
	for topic, since := range found {
		all = append(all, Notable{topic, since})
	}
	slices.SortFunc(all, func(a, b Notable) int { return cmp.Or(before(a.Since, b.Since), cmp.Compare(a.Topic, b.Topic)) })
	return all
}

// notables reads topics and their times.
func notables(fields []any) []Notable {
	all := make([]Notable, 0, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		topic, _ := fields[i].(string)
		all = append(all, Notable{topic, time.UnixMilli(integer(fields[i+1]))})
	}
	return all
}

// integer reads a number of a reply, be it written as one or as text; 0 for what is none.
func integer(field any) int64 {
	if text, ok := field.(string); ok {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	n, _ := field.(int64)
	return n
}
