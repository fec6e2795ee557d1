package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Requeue makes dead letters ready again, with all their attempts and their whole time
// to live, and returns how many there were. It skips ids that are not dead, and dead
// letters whose record is missing; an id that is given twice counts once. Errors:
// ErrInvalid, ErrUnreplicated, or that of the connection.
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

// paced runs an operation as a call of a long job.
func paced(ctx context.Context, run operation, s store.Shard, topic string, which store.Letters) (dealt store.Dealt, err error) {
	_, err = store.Paced(ctx, func(ctx context.Context) (err error) {
		dealt, err = run(s, ctx, topic, which)
		return err
	})
	return dealt, err
}

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
		dealt, err := paced(ctx, run, i.store.Of(topic), topic, store.Letters{Members: members})
		if total += dealt.Done; err != nil { // an ErrUnreplicated is beside what is done
			return total, fmt.Errorf("dead letters of %s: %w", topic, err)
		}
		ids = ids[dealt.Checked:]
	}
	return total, nil
}

// RequeueAll is Requeue for all dead letters that a topic has now, oldest first, and for
// none that dies meanwhile. It calls on, which may be nil, with the total after each page.
func (i *Inspector) RequeueAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return i.operateOnAll(ctx, store.Shard.Requeue, topic, on)
}

// PurgeAll is Purge for all dead letters that a topic has now, and for none that dies meanwhile.
func (i *Inspector) PurgeAll(ctx context.Context, topic string, on func(total int)) (int, error) {
	return i.operateOnAll(ctx, store.Shard.Purge, topic, on)
}

func (i *Inspector) operateOnAll(ctx context.Context, run operation, topic string, on func(int)) (int, error) {
	if err := record.CheckAnyTopic(topic); err != nil {
		return 0, err
	}
	shard := i.store.Of(topic)
	there, errCount := shard.CountDead(ctx, topic)
	last, errLast := shard.LastDeath(ctx, topic)
	if err := cmp.Or(errCount, errLast); err != nil {
		return 0, fmt.Errorf("count dead letters of %s: %w", topic, err)
	}
	if last == 0 {
		return 0, nil
	}
	total, left := 0, 0
	for total+left < int(there) { // nor more, if the clock was set back: what is requeued may die again at once
		which := store.Letters{Oldest: min(store.MostLetters, int(there)-total-left), Last: last, Pass: left}
		dealt, err := paced(ctx, run, shard, topic, which)
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

// ExportDead writes the dead letters of a topic as lines of JSON (Line), oldest death
// first, and returns how many there were. They stay where they are. It calls on, which
// may be nil, with the total after each page. Errors: ErrInvalid, that of the
// connection, or of w.
func (i *Inspector) ExportDead(ctx context.Context, topic string, w io.Writer, on func(total int)) (int, error) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	total, cursor := 0, ""
	for {
		var page Page
		_, err := store.Paced(ctx, func(ctx context.Context) (err error) {
			page, err = i.List(ctx, topic, Dead, store.MostLetters, cursor)
			return err
		})
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
