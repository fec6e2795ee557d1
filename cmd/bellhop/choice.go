package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	badAfter      = time.Minute // a topic is in trouble once a ready message is overdue for so long
	behindAfter   = time.Second // a carrier makes ready what is due before that
	surveyed      = 200         // topics read of each index, and by name, to choose the worst
	topicsPerPage = 1000        // counted at a time, if all topics are
	rateInterval  = time.Second // between the two counts of a rate
)

// orders compare topics, by the name of the order.
var orders = map[string]func(a, b topicRow) int{
	"name":    func(a, b topicRow) int { return cmp.Compare(record.PlaceOf(a.Topic), record.PlaceOf(b.Topic)) },
	"overdue": func(a, b topicRow) int { return cmp.Or(cmp.Compare(b.late(), a.late()), cmp.Compare(b.Dead, a.Dead)) },
	"dead":    func(a, b topicRow) int { return cmp.Compare(b.Dead, a.Dead) },
	"ready":   func(a, b topicRow) int { return cmp.Compare(b.Ready, a.Ready) },
	"rate":    func(a, b topicRow) int { return cmp.Compare(b.per.sum(), a.per.sum()) },
}

// A choice is which topics are shown, and in which order.
type choice struct {
	patterns []notify.Pattern // none: all topics
	sort     string           // of orders
	limit    int              // 0: none
	bad      bool             // only those that are in trouble
}

// check parses the pattern, sets the default order, and rejects invalid flags. The error is a notify.ErrInvalid.
func (c *choice) check(args []string) error {
	if len(args) > 0 {
		p, err := notify.ParsePattern(args[0])
		if err != nil {
			return err
		}
		c.patterns = []notify.Pattern{p}
	}
	if c.sort == "" && c.bad {
		c.sort = "overdue"
	} else if c.sort == "" {
		c.sort = "name"
	}
	if orders[c.sort] == nil {
		return fault.New("sort", "order %.100q: use name, overdue, dead, ready or rate", c.sort)
	}
	if c.limit < 0 {
		return fault.New("limit", "limit %d: use 1 or more, or leave it out", c.limit)
	}
	return nil
}

// A topicRow is a topic as it is shown.
type topicRow struct {
	notify.Counts
	per *rates // nil if unknown
}

// late returns how long the oldest message has been due that is ready, or that no carrier made ready; -1 if there is none, or the
// topic is paused.
func (r topicRow) late() time.Duration {
	if r.Ready == 0 && r.Behind < behindAfter || r.Paused {
		return -1
	}
	return max(r.Overdue, r.Behind)
}

// bad reports whether a topic is in trouble.
func (r topicRow) bad() bool { return r.late() >= badAfter || r.Dead > 0 || r.Paused }

// A shownTopics is the rows that are shown, and totals.
type shownTopics struct {
	rows []topicRow

	topics                        int64 // all that match
	waiting, leased, dead, bcasts int64 // in all that match; waiting are scheduled, ready or blocked

	missing error // names shards that are away, with their topics; nil: none is
}

// note notes the error of a call on all shards if it only names shards that are away,
// and else returns it.
func (t *shownTopics) note(err error) error {
	missing, err := partly(err)
	if missing != nil {
		t.missing = missing
	}
	return err
}

// add adds rows for the chosen topics of some, and drops rows beyond the limit.
func (t *shownTopics) add(counts []notify.Counts, c choice) {
	for _, one := range counts {
		if row := (topicRow{Counts: one}); !c.bad || row.bad() {
			t.rows = append(t.rows, row)
		}
	}
	if c.sort != "rate" { // rates are not known yet
		t.arrange(c)
	}
}

// addWaiting adds the one topic that is chosen if nothing was published to it, and subscribers wait for it.
func (t *shownTopics) addWaiting(ctx context.Context, s *session, c choice) error {
	if len(t.rows) > 0 || len(c.patterns) == 0 || c.bad || record.CheckTopic(c.patterns[0].String()) != nil {
		return nil
	}
	counts, err := s.inspector.Count(ctx, c.patterns[0].String())
	if err == nil && counts[0].Waiting > 0 {
		t.topics++
		t.add(counts, c)
	}
	return err
}

// arrange sorts the rows, and drops those beyond the limit.
func (t *shownTopics) arrange(c choice) {
	slices.SortFunc(t.rows, func(a, b topicRow) int { return cmp.Or(orders[c.sort](a, b), cmp.Compare(a.Topic, b.Topic)) })
	if c.limit > 0 && len(t.rows) > c.limit {
		t.rows = t.rows[:c.limit:c.limit]
	}
}

// count counts the chosen topics. Indexes name the worst; other orders, and
// patterns, require a count of all topics that match.
func (a *app) count(ctx context.Context, s *session, c choice) (t shownTopics, err error) {
	survey, err := s.inspector.Survey(ctx, surveyed)
	if err := t.note(err); err != nil {
		return t, err
	}
	if len(c.patterns) == 0 && (c.bad || c.sort == "overdue" || c.sort == "rate") {
		return t, t.countWorst(ctx, s, c, survey)
	}
	return t, t.countAll(ctx, a, s, c, survey.Topics)
}

// countWorst counts the topics that indexes name, and the first ones by name, which are all topics of a small store.
func (t *shownTopics) countWorst(ctx context.Context, s *session, c choice, survey notify.Survey) error {
	t.topics, t.leased, t.dead, t.bcasts = survey.Topics, survey.Leased, survey.Dead, survey.Broadcasts
	t.waiting = survey.Messages - survey.Leased - survey.Dead - survey.Broadcasts
	counts, _, err := s.inspector.TopicsAfter(ctx, "", surveyed)
	if err := t.note(err); err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, one := range counts {
		known[one.Topic] = true
	}
	var names []string
	for _, list := range [][]notify.Notable{survey.Overdue, survey.Behind, survey.Blocked, survey.Deaths, survey.Paused, survey.Busy} {
		for _, n := range list {
			if !known[n.Topic] && record.CheckTopic(n.Topic) == nil {
				known[n.Topic] = true
				names = append(names, n.Topic)
			}
		}
	}
	others, err := s.inspector.Count(ctx, names...)
	t.add(append(counts, others...), c)
	return t.note(err)
}

// countAll counts all topics that match, a page at a time.
func (t *shownTopics) countAll(ctx context.Context, a *app, s *session, c choice, of int64) error {
	bar := a.progress("counting", max(of, 1))
	defer func() { _ = bar.Finish() }() // it only draws
	for after := ""; ; {
		counts, next, err := s.inspector.TopicsAfter(ctx, after, topicsPerPage, c.patterns...)
		if err := t.note(err); err != nil {
			return err
		}
		for _, one := range counts {
			t.topics++
			t.waiting += one.Scheduled + one.Ready + one.Blocked
			t.leased, t.dead, t.bcasts = t.leased+one.Leased, t.dead+one.Dead, t.bcasts+one.Broadcasts
		}
		t.add(counts, c)
		if _ = bar.Add(len(counts)); next == "" {
			return nil
		}
		after = next
	}
}

// rate computes the rates per second, from a second count.
func (t *shownTopics) rate(ctx context.Context, s *session, c choice) error {
	began := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rateInterval):
	}
	names := make([]string, len(t.rows))
	for i, row := range t.rows {
		names[i] = row.Topic
	}
	counts, err := s.inspector.Count(ctx, names...)
	if err := t.note(err); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	now := make(map[string]notify.Counts, len(counts))
	for _, one := range counts {
		now[one.Topic] = one
	}
	for i, row := range t.rows {
		t.rows[i].per = &rates{}
		if one, there := now[row.Topic]; there {
			t.rows[i] = topicRow{Counts: one, per: &rates{
				float64(one.Published-row.Published) / seconds, float64(one.Acked-row.Acked) / seconds, float64(one.Sent-row.Sent) / seconds,
			}}
		}
	}
	t.arrange(c)
	return nil
}

// hold notes for how long workers have had messages of the topics that are shown.
func (t *shownTopics) hold(ctx context.Context, s *session) error {
	counts := make([]notify.Counts, len(t.rows))
	for i, row := range t.rows {
		counts[i] = row.Counts
	}
	err := store.NoteLeases(ctx, s.store, counts)
	for i, one := range counts {
		t.rows[i].Counts = one
	}
	return err
}

// sum describes the totals of all topics that match.
func (t *shownTopics) sum() string {
	topics := text.Plural(t.topics, "topic")
	if n := int64(len(t.rows)); n != t.topics {
		topics += fmt.Sprintf(", %d shown", n)
	}
	waiting := "scheduled or ready"
	if slices.ContainsFunc(t.rows, topicRow.isBlocked) {
		waiting = "scheduled, ready or blocked"
	}
	return strings.Join([]string{
		fmt.Sprintf("%s: %d %s", topics, t.waiting, waiting), fmt.Sprintf("%d leased", t.leased),
		fmt.Sprintf("%d dead", t.dead), text.Plural(t.bcasts, "broadcast") + " to come",
	}, ", ")
}
