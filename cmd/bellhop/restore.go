package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A restored is a line of an export that is a schedule, a push or a group. All are restored behind the messages: a schedule goes on behind what it
// made, a push finds the messages of its topics in their order, and what waits for a group comes once all of that may be there.
type restored struct {
	line     int
	schedule calls.ScheduleLine
	push     *store.Push
	group    *store.ExportedGroup
}

// parseRestored reads a line of a kind.
func parseRestored(line int, kind string, text []byte, maxBody int) (restored, error) {
	r := restored{line: line}
	switch kind {
	case store.KindPush:
		p, err := calls.DecodePushLine(text)
		r.push = &p
		return r, err
	case store.KindSchedule:
		var err error
		if r.schedule, err = calls.DecodeScheduleLine(text); err != nil {
			return r, err
		}
		if r.schedule.Restore == nil {
			return r, fault.New("restore", "restore: it is missing; use bellhop schedule apply for a schedule that is to begin anew")
		}
		return r, calls.CheckBody(r.schedule.Schedule, maxBody)
	case store.KindGroup:
		g, err := calls.DecodeGroupLine(text)
		r.group = &g
		return r, err
	}
	return r, fault.New("kind", "kind %.40q: use %s, %s or %s, and leave it out for a message", kind, store.KindSchedule, store.KindPush, store.KindGroup)
}

// restore restores it.
func (r *restored) restore(ctx context.Context, s *session) (store.Outcome, error) {
	if r.group != nil {
		return s.store.Of(r.group.Topic).RestoreGroup(ctx, r.group)
	}
	if r.push == nil {
		return s.store.Of(r.schedule.Topic).RestoreSchedule(ctx, r.schedule.Schedule, r.schedule.Restore)
	}
	if err := s.config.Nats(s.log).CheckSubject(r.push.Subject(">")); r.push.IsNATS() && err != nil {
		return store.OutcomeRefused, err
	}
	return s.store.Home().RestorePush(ctx, *r.push)
}

// noteGroups notes the groups of messages of an export: what waits for these is held back until they are restored.
func (b *bulk) noteGroups(messages []notify.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Restore == nil {
			continue
		}
		if m.Group != "" {
			topic, _ := record.SplitBranch(m.Topic)
			b.groups[topic+":"+m.Group] = true
		}
		if m.AfterGroup != "" {
			b.groups[m.AfterGroup] = true
		}
	}
}

// addGroups adds the groups of which the file has no line: nothing says that more of them comes.
func (b *bulk) addGroups() {
	for i := range b.later {
		if g := b.later[i].group; g != nil {
			delete(b.groups, g.Topic+":"+g.Name)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(b.groups)) {
		topic, name, err := record.SplitGroup(group)
		if err == nil {
			b.later = append(b.later, restored{line: b.upTo, group: &store.ExportedGroup{Topic: topic, Name: name}})
		}
	}
}

// restoreAll restores the schedules, the pushes and the groups of the file. It may be repeated.
func (b *bulk) restoreAll(ctx context.Context) error {
	b.addGroups()
	for i := range b.later {
		outcome, err := b.later[i].restore(ctx, b.session)
		switch {
		case err == nil && outcome == store.OutcomeKept:
			b.unchanged++
		case err == nil && b.later[i].group != nil:
			b.ofGroups++
		case err == nil:
			b.restored++
		case refusesLine(err):
			b.refuse(b.later[i].line, err)
		default:
			return fmt.Errorf("%w\nof %d schedules, pushes and groups %d are restored; publish the file again", err, len(b.later), i)
		}
	}
	return nil
}
