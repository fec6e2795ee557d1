package subscribers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// deadPage is how many dead letters one call deals with.
const deadPage = 500

// DeadLetters are the messages that died and are kept with the reason. It is
// safe for concurrent use.
type DeadLetters struct{ store *notify.Store }

// NewDeadLetters returns the dead letters of a store.
func NewDeadLetters(s *notify.Store) *DeadLetters { return &DeadLetters{s} }

// List returns a page of a topic's dead letters, oldest death first, as
// notify.Publisher.List does.
func (l *DeadLetters) List(ctx context.Context, topic string, limit int, cursor string) (notify.Page, error) {
	return notify.List(ctx, l.store, topic, notify.Dead, limit, cursor)
}

// Requeue makes dead letters ready again, with all their attempts and their
// whole time to live, and returns how many there were: ids that are not dead are
// passed over, and so is one whose record is missing. Errors:
// notify.ErrInvalid, or that of the connection.
func (l *DeadLetters) Requeue(ctx context.Context, topic string, ids ...string) (int, error) {
	return l.byID(ctx, store.Shard.Requeue, topic, ids)
}

// Purge removes dead letters for good and returns how many there were: ids that
// are not dead are passed over. Errors: notify.ErrInvalid, or that of the connection.
func (l *DeadLetters) Purge(ctx context.Context, topic string, ids ...string) (int, error) {
	return l.byID(ctx, store.Shard.Purge, topic, ids)
}

// A dealing deals with some dead letters of a topic.
type dealing func(s store.Shard, ctx context.Context, topic string, which store.Letters) (store.Dealt, error)

func (l *DeadLetters) byID(ctx context.Context, deal dealing, topic string, ids []string) (int, error) {
	if err := store.CheckTopic(topic); err != nil {
		return 0, err
	}
	total := 0
	for len(ids) > 0 {
		page := ids[:min(len(ids), deadPage)]
		members := make([]string, len(page))
		for i, id := range page {
			members[i] = store.Member(topic, id)
		}
		dealt, err := deal(l.store.Of(topic), ctx, topic, store.Letters{Members: members})
		if err != nil {
			return total, fmt.Errorf("dead letters of %s: %w", topic, err)
		}
		total += dealt.Done
		ids = ids[dealt.Looked:]
	}
	return total, nil
}

// RequeueAll is Requeue for all dead letters that a topic has now, oldest
// first. on, which may be nil, is told the total after each page.
func (l *DeadLetters) RequeueAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return l.all(ctx, store.Shard.Requeue, topic, on)
}

// PurgeAll is Purge for all dead letters that a topic has now.
func (l *DeadLetters) PurgeAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return l.all(ctx, store.Shard.Purge, topic, on)
}

func (l *DeadLetters) all(ctx context.Context, deal dealing, topic string, on func(int)) (int, error) {
	if err := store.CheckTopic(topic); err != nil {
		return 0, err
	}
	there, err := l.store.Of(topic).CountDead(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("count dead letters of %s: %w", topic, err)
	}
	total, left := 0, 0
	for total+left < int(there) { // what dies meanwhile is left: it may be what was just requeued
		dealt, err := deal(l.store.Of(topic), ctx, topic, store.Letters{Oldest: min(deadPage, int(there)-total-left), Pass: left})
		if err != nil {
			return total, fmt.Errorf("dead letters of %s: %w", topic, err)
		}
		total, left = total+dealt.Done, left+dealt.Left
		if on != nil {
			on(total)
		}
		if dealt.Done+dealt.Left == 0 {
			break
		}
	}
	return total, nil
}

// Export writes the dead letters of a topic as lines of JSON (notify.Line),
// oldest death first, and returns how many there were. They stay where they are.
// on, which may be nil, is told the total after each page.
func (l *DeadLetters) Export(ctx context.Context, topic string, w io.Writer, on func(total int)) (int, error) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	total, cursor := 0, ""
	for {
		page, err := l.List(ctx, topic, deadPage, cursor)
		if err != nil {
			return total, err
		}
		for _, info := range page.Messages {
			if err := encoder.Encode(info.Line()); err != nil {
				return total, fmt.Errorf("export dead letters of %s: %w", topic, err)
			}
			total++
		}
		if on != nil {
			on(total)
		}
		if cursor = page.Cursor; cursor == "" {
			return total, nil
		}
	}
}
