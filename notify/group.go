package notify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// headers returns the headers of a message, with those in which the store tells of the group that it waits for.
func (m *Message) headers() map[string]string {
	if m.AfterGroup == "" {
		return m.Headers
	}
	all := make(map[string]string, len(m.Headers)+5)
	if m.Restore == nil {
		for _, name := range []string{store.HeaderAfterAcked, store.HeaderAfterDead, store.HeaderAfterDropped, store.HeaderAfterCancelled} {
			all[name] = ""
		}
	}
	maps.Copy(all, m.Headers)
	all[store.HeaderAfterGroup] = m.AfterGroup
	return all
}

// isGrouped reports whether the message is in a group, or waits for one.
func (m *Message) isGrouped() bool { return m.Group != "" || m.AfterGroup != "" }

// waits reports whether a restored message waited for its group: it did not come yet, by that or by a time.
func (m *Message) waits() bool {
	return m.AfterGroup != "" && m.Headers[store.HeaderAfterAcked] == "" && m.Restore.AttemptsUsed == 0 && m.Restore.Snoozed == 0 && !m.Restore.dead()
}

// checkShard returns why a shard cannot have a message: its group, or that which it waits for, lies elsewhere; or the store has an older format.
func (p *Publisher) checkShard(ctx context.Context, shard store.Shard, m *Message) error {
	if _, branch := record.SplitBranch(m.Topic); branch != "" {
		if err := shard.Needs(ctx, store.FormatOfGroups, "a branch"); err != nil {
			return err
		}
	}
	if !m.isGrouped() {
		return nil
	}
	if m.AfterGroup != "" {
		topic, _, _ := record.SplitGroup(m.AfterGroup) // check refuses a fault
		if of := p.store.Of(topic); of.Number() != shard.Number() {
			return fault.New("after_group", "after_group %s: %s lies in shard %d and %s in shard %d; publish this one to %[4]s, or to a topic of shard %[5]d (bellhop topics --shard TOPIC)",
				m.AfterGroup, m.Topic, shard.Number(), topic, of.Number())
		}
	}
	return shard.Needs(ctx, store.FormatOfGroups, "a group")
}

// refusedByGroup returns the error of a message that cannot be in its group, or wait for one; nil for another refusal.
func (m *Message) refusedByGroup(placed store.Placed) error {
	member := record.Member(m.Topic, m.ID)
	switch placed.Refusal {
	case store.GroupComplete:
		group := placed.Reason
		if group == "" {
			topic, _ := record.SplitBranch(m.Topic)
			group = record.Member(topic, m.Group)
		}
		return fmt.Errorf("publish %s: %w: %s since %s; use another name", member, store.ErrGroupComplete, group, placed.Since.UTC().Format(time.RFC3339))
	case store.GroupTaken:
		return fmt.Errorf("publish %s: %w: %s of %s; cancel that, or use if_exists=replace with its id", member, store.ErrGroupTaken, cmp.Or(placed.Reason, "another message"), m.AfterGroup)
	case store.GroupCircle:
		return fault.New("after_group", "after_group %s: it would wait for itself: %s is in group %s of its topic, which waits for that group, or is one of more than 16 that wait for each other", m.AfterGroup, member, m.Group)
	}
	return nil
}
