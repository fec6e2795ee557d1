package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// An Apply says which schedules some topics are to have.
type Apply struct {
	Schedules []*Schedule
	Prune     []string // topics that are to have those, and no others
	DryRun    bool     // nothing is changed
}

// Applied is what an Apply did to a schedule, or would do.
type Applied struct {
	Topic   string `json:"topic"`
	Name    string `json:"name"`
	Outcome string `json:"outcome" enum:"created,replaced,kept,deleted" doc:"kept: it was there as it was put"`
}

// AppliedDeleted is the outcome of a schedule that was pruned; the others are those of a put.
const AppliedDeleted = "deleted"

// mostOver is how many schedules that would never fire an error names.
const mostOver = 20

// ApplySchedules puts schedules, and deletes others of the topics that are pruned. Each is changed by itself, and one that is there as it
// is put stays as it is: so any number of processes may apply the same at once, and whatever breaks it off, a repeat does the rest. A
// schedule that is changed while its topic is pruned stays. It returns what was done. Errors: before anything is changed a joined Fault
// for each schedule that would never fire, but for those that are there with these times; then those of PutSchedule and DeleteSchedule.
func (s *Store) ApplySchedules(ctx context.Context, a Apply) ([]Applied, error) {
	p := applying{store: s, Apply: a}
	if err := p.checkOver(ctx); err != nil {
		return nil, err
	}
	err := p.putAll(ctx)
	if err == nil {
		err = p.prune(ctx)
	}
	return p.done, err
}

// applying is one call of ApplySchedules.
type applying struct {
	store *Store
	Apply
	done []Applied
}

// note notes what was done.
func (p *applying) note(topic, name, outcome string) {
	p.done = append(p.done, Applied{topic, name, outcome})
}

// checkOver refuses schedules that would never fire. One that is there already with these times has served, and may be changed but for
// them.
func (p *applying) checkOver(ctx context.Context) error {
	now, err := p.store.Now(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, s := range p.Schedules {
		over := s.CheckOver(now)
		if over == nil {
			continue
		}
		switch before, state, _, err := p.store.Of(s.Topic).Schedule(ctx, s.Topic, s.Name); {
		case err == nil && s.hasTimesOf(&before):
		case err != nil && state.Revision == 0 && !errors.Is(err, ErrNoSchedule):
			return err
		default:
			for _, f := range fault.All(over) {
				faults = append(faults, &fault.Fault{Field: f.Field, Err: fmt.Errorf("%s %s: %w", s.Topic, s.Name, f)})
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(append(faults[:min(len(faults), mostOver)], fault.New("schedules", "schedules: %d of them would never fire, and nothing was changed", len(faults)))...)
	}
	return nil
}

// putAll puts all schedules.
func (p *applying) putAll(ctx context.Context) error {
	for _, s := range p.Schedules {
		outcome, err := p.put(ctx, s)
		if err != nil {
			return err
		}
		p.note(s.Topic, s.Name, string(outcome))
	}
	return nil
}

// put puts a schedule, or returns what that would do.
func (p *applying) put(ctx context.Context, s *Schedule) (Outcome, error) {
	shard := p.store.Of(s.Topic)
	if !p.DryRun {
		outcome, _, err := shard.PutSchedule(ctx, s, AnyRevision)
		return outcome, err
	}
	before, state, _, err := shard.Schedule(ctx, s.Topic, s.Name)
	switch {
	case errors.Is(err, ErrNoSchedule):
		return OutcomeCreated, nil
	case err != nil && state.Revision == 0:
		return OutcomeRefused, err
	case err == nil && s.Same(&before):
		return OutcomeKept, nil
	}
	return OutcomeReplaced, nil // also of one that cannot be read
}

// prune deletes the other schedules of the topics that are pruned.
func (p *applying) prune(ctx context.Context) error {
	wanted := make(map[string]bool)
	for _, s := range p.Schedules {
		wanted[record.Member(s.Topic, s.Name)] = true
	}
	for _, topic := range slices.Compact(slices.Sorted(slices.Values(p.Prune))) {
		all, err := eachSchedule(ctx, topic, p.store.Of(topic).BareSchedules)
		for i := 0; i < len(all) && err == nil; i++ {
			if !wanted[record.Member(topic, all[i].Schedule.Name)] {
				err = p.delete(ctx, &all[i])
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a schedule as it was read. Another process may have done so.
func (p *applying) delete(ctx context.Context, l *Listed) error {
	topic, name := l.Schedule.Topic, l.Schedule.Name
	if !p.DryRun {
		err := p.store.Of(topic).DeleteSchedule(ctx, topic, name, l.State.Revision)
		if errors.Is(err, ErrNoSchedule) {
			return nil
		} else if err != nil {
			return err
		}
	}
	p.note(topic, name, AppliedDeleted)
	return nil
}

// EachSchedule returns the schedules of a topic by their names, each once; those of all topics, by these, if it is empty. Errors: that of the
// connection, or a MissingError beside the schedules of the shards that answered.
func EachSchedule(ctx context.Context, s *Store, topic string) ([]Listed, error) {
	if topic != "" {
		return eachSchedule(ctx, topic, s.Of(topic).Schedules)
	}
	parts, err := Gather(ctx, s, func(ctx context.Context, shard Shard) ([]Listed, error) {
		return eachSchedule(ctx, "", shard.Schedules)
	})
	all := slices.Concat(parts...)
	slices.SortFunc(all, byName)
	return all, err
}

// eachSchedule returns the schedules of a shard that are in pages as read returns them.
func eachSchedule(ctx context.Context, topic string, read func(ctx context.Context, topic, cursor string) ([]Listed, string, error)) (all []Listed, err error) {
	for cursor := ""; ; {
		page, next, err := read(ctx, topic, cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.SortFunc(all, byName)
	return slices.CompactFunc(all, func(a, b Listed) bool { return byName(a, b) == 0 }), nil
}

// byName orders schedules by their topics, and of one by their names.
func byName(a, b Listed) int {
	return cmp.Or(strings.Compare(a.Schedule.Topic, b.Schedule.Topic), strings.Compare(a.Schedule.Name, b.Schedule.Name))
}
