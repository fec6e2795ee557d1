package subscribers

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed requeue.lua
	requeueSource string
	requeueScript = notify.NewScript("requeue", requeueSource).Promised()

	//go:embed purge.lua
	purgeSource string
	purgeScript = notify.NewScript("purge", purgeSource).Promised()
)

// deadPage is how many dead letters one call deals with.
const deadPage = 500

// DeadLetters are the messages that died and are kept with the reason. It is
// safe for concurrent use.
type DeadLetters struct{ store *notify.Store }

// NewDeadLetters returns the dead letters of a store.
func NewDeadLetters(store *notify.Store) *DeadLetters { return &DeadLetters{store} }

// List returns a page of a topic's dead letters, oldest death first, as
// notify.Publisher.List does.
func (l *DeadLetters) List(ctx context.Context, topic string, limit int, cursor string) (notify.Page, error) {
	return notify.List(ctx, l.store, topic, notify.Dead, limit, cursor)
}

// Requeue makes dead letters ready again, with all their attempts and their
// whole time to live, and returns how many it were: ids that are not dead are
// passed over, and so is one whose record is missing. Errors:
// notify.ErrInvalid, or that of the connection.
func (l *DeadLetters) Requeue(ctx context.Context, topic string, ids ...string) (int, error) {
	return l.byID(ctx, requeueScript, topic, ids)
}

// Purge removes dead letters for good and returns how many it were: ids that
// are not dead are passed over. Errors: notify.ErrInvalid, or that of the connection.
func (l *DeadLetters) Purge(ctx context.Context, topic string, ids ...string) (int, error) {
	return l.byID(ctx, purgeScript, topic, ids)
}

func (l *DeadLetters) byID(ctx context.Context, script *notify.Script, topic string, ids []string) (int, error) {
	if err := notify.CheckTopic(topic); err != nil {
		return 0, err
	}
	total := 0
	for len(ids) > 0 {
		page := ids[:min(len(ids), deadPage)]
		ids = ids[len(page):]
		args := []any{topic, 0}
		for _, id := range page {
			args = append(args, notify.Member(topic, id))
		}
		n, _, err := l.run(ctx, script, topic, args)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// RequeueAll is Requeue for all dead letters that a topic has now, oldest
// first. on, which may be nil, is told the total after each page.
func (l *DeadLetters) RequeueAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return l.all(ctx, requeueScript, topic, on)
}

// PurgeAll is Purge for all dead letters that a topic has now.
func (l *DeadLetters) PurgeAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return l.all(ctx, purgeScript, topic, on)
}

func (l *DeadLetters) all(ctx context.Context, script *notify.Script, topic string, on func(int)) (int, error) {
	if err := notify.CheckTopic(topic); err != nil {
		return 0, err
	}
	there, err := l.store.Client().ZCard(ctx, l.store.Keys().Dead(topic)).Result()
	if err != nil {
		return 0, fmt.Errorf("count dead letters of %s: redis at %s: %w", topic, l.store.Where(), err)
	}
	total, left := 0, 0
	for total+left < int(there) { // what dies meanwhile is left: it may be what was just requeued
		n, more, err := l.run(ctx, script, topic, []any{topic, min(deadPage, int(there)-total-left), left})
		if err != nil {
			return total, err
		}
		total, left = total+n, left+more
		if on != nil {
			on(total)
		}
		if n+more == 0 {
			break
		}
	}
	return total, nil
}

// run runs a script on dead letters and returns how many it dealt with, and how many it left.
func (l *DeadLetters) run(ctx context.Context, script *notify.Script, topic string, args []any) (n, left int, err error) {
	reply, err := l.store.Run(ctx, script, l.store.Keys().Topic(topic), args...)
	if err != nil {
		return 0, 0, fmt.Errorf("dead letters of %s: %w", topic, err)
	}
	counts := make([]int64, 2)
	for i := range min(len(reply), len(counts)) {
		counts[i], _ = reply[i].(int64)
	}
	return int(counts[0]), int(counts[1]), nil
}

// Export writes the dead letters of a topic as lines of JSON (notify.Line),
// oldest death first, and returns how many it were. They stay where they are.
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
