package repair

import (
	"context"
	_ "embed"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed waiting.lua
	waitingSource string
	waitingScript = newScript("waiting", waitingSource)
)

// waiting looks for inboxes that nobody listens on, twice and some time apart: who
// stops, or connects anew, is out of reach for a moment.
func (r *run) waiting(ctx context.Context, topics []string) error {
	node, err := r.node(ctx)
	if err != nil {
		return err
	}
	gone := make(map[string][]any) // of each topic: inboxes and their places
	for _, topic := range topics {
		found, err := deaf(ctx, node, r.store.Keys().Waiting(topic))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			gone[topic] = found
		}
	}
	if len(gone) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(notify.Silence):
	}
	for _, topic := range topics {
		for some := range slices.Chunk(gone[topic], 2*names) {
			if _, _, err := r.step(ctx, waitingScript, []string{r.store.Keys().Waiting(topic)}, "0", some...); err != nil {
				return err
			}
		}
	}
	return nil
}

// deaf returns the inboxes of a waiting list that nobody listens on, each followed by its place.
func deaf(ctx context.Context, node redis.Cmdable, key string) (found []any, err error) {
	for cursor := uint64(0); ; {
		var page []string
		if page, cursor, err = node.ZScan(ctx, key, cursor, "", names).Result(); err != nil {
			return nil, err
		}
		var inboxes []string
		for i := 0; i < len(page); i += 2 {
			inboxes = append(inboxes, page[i])
		}
		if len(inboxes) > 0 {
			listening, err := node.PubSubNumSub(ctx, inboxes...).Result()
			if err != nil {
				return nil, err
			}
			for i := 0; i < len(page); i += 2 {
				if listening[page[i]] == 0 {
					found = append(found, page[i], page[i+1])
				}
			}
		}
		if cursor == 0 {
			return found, nil
		}
	}
}
