package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Limits of a backfill.
const (
	MaxBackfill  = 1000      // occurrences
	BackfillKept = time.Hour // how long the id of one stays taken after its end, so that a repeat does not make it again

	backfillPage  = 50      // occurrences in one call
	backfillBytes = 4 << 20 // of bodies in one call, or one occurrence more
	mostCounted   = 100_000 // of a backfill that is refused
)

// runTime is how the id of a run has its time.
const runTime = "2006-01-02T15:04:05.000Z"

// RunSchedule publishes the message of a schedule now, also while the schedule is paused, and returns its id, NAME~2026-11-22T08:00:00.123Z. It moves no
// cursor and counts as none that was made. Where the schedule drops an occurrence while another is under way, a run waits: somebody asked for it.
// Errors: ErrNoSchedule, and those of Publish.
func (s Shard) RunSchedule(ctx context.Context, topic, name string) (string, Placed, error) {
	schedule, state, _, err := s.Schedule(ctx, topic, name)
	if err != nil {
		return "", Placed{}, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return "", Placed{}, err
	}
	o := Occurrence{At: now.Truncate(time.Millisecond), Previous: schedule.before(&state, now)}
	for {
		one, err := schedule.byHand(o, runTime, 0)
		if err != nil {
			return "", Placed{}, err
		}
		placed, err := s.Publish(ctx, []Publish{one})
		switch {
		case err != nil:
			return "", Placed{}, err
		case placed[0].Refusal == IDInUse: // another run of this millisecond
			o.At = o.At.Add(time.Millisecond)
		case placed[0].Refusal != 0:
			return "", Placed{}, schedule.foreign("run")
		default:
			return strings.TrimPrefix(one.Member, topic+":"), placed[0], nil
		}
	}
}

// before returns the time of the last occurrence before a time that was made; zero: there was none.
func (s *Schedule) before(state *ScheduleState, now time.Time) (last time.Time) {
	for _, one := range state.Occurrences {
		if one.At.Before(now) && one.At.After(last) {
			last = one.At
		}
	}
	return last
}

func (s *Schedule) foreign(what string) error {
	return fmt.Errorf("%s the schedule %s of %s: a key of the topic is foreign; run bellhop doctor", what, s.Name, s.Topic)
}

// byHand returns the message of an occurrence that somebody asked for, with its time in some form: it is due at once, waits until others of its key have
// ended, and keeps its id for a while.
func (s *Schedule) byHand(o Occurrence, form string, unique time.Duration) (Publish, error) {
	m, at := s.message(o), o.At.UTC().Format(form)
	id := s.Name + "~" + at
	m.Headers[HeaderScheduled], m.IfBusy, m.UniqueFor = at, "", unique
	tail, err := m.EncodeTail()
	if err != nil {
		return Publish{}, fmt.Errorf("make %s of %s: %w", id, s.Topic, err)
	}
	return Publish{
		Topic: s.Topic, Member: record.Member(s.Topic, id), Tail: tail, TTL: m.TTL, Broadcast: m.Broadcast, Marked: m.IsMarked(), Key: m.Key,
		As: &As{Unique: unique},
	}, nil
}

// A Backfill says which occurrences of a schedule are to be made again, or are to be made at all.
type Backfill struct {
	Topic, Name string
	From, To    time.Time // from From on, before To: both in the past; a zero To: up to now
	DryRun      bool      // nothing is made
}

// Backfill makes the occurrences of a schedule's rule between two times in the past, the oldest first: with their ordinary ids and headers, due at once,
// also while it is paused. It moves no cursor and counts as none that was made, and what would be dropped while another is under way waits. It returns
// what it made: Taken are those whose id was in use, which it leaves as they are. An id stays taken for BackfillKept after the end of what it made. So
// it may be repeated, wherever it was broken off: then it makes the rest. Errors, with what was made until then: a joined Fault for what is wrong, among
// it more than MaxBackfill occurrences, and those of RunSchedule.
func (s Shard) Backfill(ctx context.Context, b Backfill) ([]Made, error) {
	schedule, state, _, err := s.Schedule(ctx, b.Topic, b.Name)
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if b.To.IsZero() {
		b.To = now
	}
	rule, err := schedule.Rule()
	if err != nil {
		return nil, err
	}
	if err := b.checkTimes(now); err != nil {
		return nil, err
	}
	occurrences, err := b.occurrences(rule)
	if err := errors.Join(err, schedule.checkSettled(&state, rule, b.To)); err != nil {
		return nil, err
	}
	var made []Made
	for page := range slices.Chunk(occurrences, min(backfillPage, 1+backfillBytes/(1+len(schedule.Message.Body)))) {
		some, err := s.backfillPage(ctx, &schedule, page, b.DryRun)
		if made = append(made, some...); err != nil {
			return made, fmt.Errorf("of %d occurrences %d were made or taken; repeat the backfill to make the rest: %w", len(occurrences), len(made), err)
		}
	}
	return made, nil
}

// checkTimes refuses what is not past.
func (b *Backfill) checkTimes(now time.Time) error {
	switch {
	case b.From.IsZero():
		return fault.New("from", "from: it is missing; give the time from which on occurrences are made")
	case b.To.After(now):
		return fault.New("to", "to %s: it is not past, and what is to come is made at its time; use %s or earlier", b.To.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !b.From.Before(b.To):
		return fault.New("from", "from %s: it is not before to, %s, which is left out itself; use an earlier time", b.From.UTC().Format(time.RFC3339), b.To.UTC().Format(time.RFC3339))
	}
	return nil
}

// occurrences returns those of a rule, or a Fault if there are too many.
func (b *Backfill) occurrences(rule *calendar.Rule) (all []Occurrence, err error) {
	var previous, limit time.Time
	if last, ok := rule.Last(b.From.Add(-1)); ok {
		previous = last
	}
	n := 0
	for at, ok := rule.Next(b.From.Add(-1)); ok && at.Before(b.To) && n < mostCounted; at, ok = rule.Next(at) {
		switch n++; {
		case n <= MaxBackfill:
			all = append(all, Occurrence{At: at, Previous: previous})
		case n == MaxBackfill+1:
			limit = at
		}
		previous = at
	}
	if n <= MaxBackfill {
		return all, nil
	}
	count := fmt.Sprint(n)
	if n == mostCounted {
		count += " or more"
	}
	return nil, fault.New("to", "to: there are %s occurrences, and a backfill makes at most %d; make those before %s first", count, MaxBackfill, limit.Format(time.RFC3339))
}

// checkSettled refuses a time behind an occurrence that the carrier will make or miss: it would be made twice.
func (s *Schedule) checkSettled(state *ScheduleState, rule *calendar.Rule, to time.Time) error {
	if !state.Paused.IsZero() || s.Count > 0 && state.Made >= int64(s.Count) {
		return nil
	}
	if at, ok := rule.Next(state.Cursor); ok && at.Before(to) {
		return fault.New("to", "to %s: the occurrence of %s is not made yet, nor missed; start a daemon that makes it, or end the backfill there",
			to.UTC().Format(time.RFC3339), at.Format(time.RFC3339))
	}
	return nil
}

// backfillPage makes some occurrences, or with dry looks which ids are in use.
func (s Shard) backfillPage(ctx context.Context, of *Schedule, page []Occurrence, dry bool) (made []Made, err error) {
	batch, members := make([]Publish, len(page)), make([]string, len(page))
	for i, o := range page {
		if batch[i], err = of.byHand(o, time.RFC3339, BackfillKept); err != nil {
			return nil, err
		}
		members[i] = batch[i].Member
	}
	if dry {
		all, err := s.Inspect(ctx, of.Topic, members)
		for i, one := range all {
			made = append(made, Made{At: page[i].At, Taken: one.State != 0})
		}
		return made, err
	}
	placed, err := s.PublishAs(ctx, batch)
	for i, one := range placed {
		if one.Refusal != 0 && one.Refusal != IDInUse {
			return made, of.foreign("backfill")
		}
		made = append(made, Made{At: page[i].At, Due: one.Due, Taken: one.Refusal != 0})
	}
	return made, err
}
