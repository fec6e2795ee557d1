package notify

import (
	"context"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Requeue makes dead letters ready again, with all their attempts and their whole time
// to live, and returns how many there were. It skips ids that are not dead, and dead
// letters whose record is missing; an id that is given twice counts once. Package find acts
// on all of a topic. Errors: ErrInvalid, ErrUnreplicated, or that of the connection.
func (i *Inspector) Requeue(ctx context.Context, topic string, ids ...string) (int, error) {
	return i.operate(ctx, store.Shard.Requeue, topic, ids)
}

// Purge removes dead letters for good and returns how many there were. It skips ids
// that are not dead. Errors: ErrInvalid, ErrUnreplicated, or that of the connection.
func (i *Inspector) Purge(ctx context.Context, topic string, ids ...string) (int, error) {
	return i.operate(ctx, store.Shard.Purge, topic, ids)
}

// An operation works on some dead letters of a topic: it requeues or purges them.
type operation func(s store.Shard, ctx context.Context, topic string, which store.Letters) (store.Dealt, error)

func (i *Inspector) operate(ctx context.Context, run operation, topic string, ids []string) (int, error) {
	if err := record.CheckAnyTopic(topic); err != nil {
		return 0, err
	}
	given := make(map[string]bool)
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		again := given[id]
		given[id] = true
		return again
	})
	total := 0
	for len(ids) > 0 {
		page := ids[:min(len(ids), store.MostLetters)]
		members := make([]string, len(page))
		for n, id := range page {
			members[n] = record.Member(topic, id)
		}
		var dealt store.Dealt
		_, err := store.Paced(ctx, func(ctx context.Context) (err error) {
			dealt, err = run(i.store.Of(topic), ctx, topic, store.Letters{Members: members})
			return err
		})
		if total += dealt.Done; err != nil { // an ErrUnreplicated is beside what is done
			return total, fmt.Errorf("dead letters of %s: %w", topic, err)
		}
		ids = ids[dealt.Checked:]
	}
	return total, nil
}
