package repair

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// held is for how long nothing that waits for a group comes, unless a repair ends before: one that was stopped does not hold it for good.
const held = time.Hour

// beginGroups examines the heads of groups, before the records show who is in them. A repair holds what waits for a group until it has seen all.
func (r *run) beginGroups(ctx context.Context, grouped map[string]bool) error {
	indexed := maps.Clone(grouped)
	if err := r.shard.GroupedTopics(ctx, func(topic string) { indexed[topic] = true }); err != nil {
		return err
	}
	if err := r.holdGroups(ctx, indexed, held); err != nil {
		return err
	}
	return r.ofGroups(ctx, grouped, store.GroupNumbers, store.GroupNames)
}

// endGroups examines who is in groups, also in those that the records showed. Then it lets go what waits for them.
func (r *run) endGroups(ctx context.Context, grouped map[string]bool) error {
	if r.o.Apply {
		if err := r.shard.GroupedTopics(ctx, func(topic string) { grouped[topic] = true }); err != nil {
			return err
		}
	}
	err := r.ofGroups(ctx, grouped, store.GroupMembers)
	if err == nil && r.o.Apply {
		err = r.holdGroups(ctx, grouped, 0)
	}
	if err == nil && r.o.Apply {
		err = r.ofGroups(ctx, grouped, store.GroupsOver)
	}
	return err
}

// holdGroups examines whether topics are indexed, and holds what waits for their groups.
func (r *run) holdGroups(ctx context.Context, topics map[string]bool, holds time.Duration) error {
	return r.named(ctx, topics, func(ctx context.Context, apply bool, some []string) (store.Repaired, error) {
		return r.shard.RepairGrouped(ctx, apply, some, holds)
	})
}

// ofGroups examines some of what topics keep of groups.
func (r *run) ofGroups(ctx context.Context, grouped map[string]bool, all ...string) error {
	for _, topic := range slices.Sorted(maps.Keys(grouped)) {
		for _, what := range all {
			_, err := r.scan(ctx, func(ctx context.Context, step store.RepairStep) (store.Repaired, error) {
				return r.shard.RepairGroups(ctx, topic, what, step)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
