package main

import (
	"context"
	"errors"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// settle sets the faults of a batch by its results, and counts the lines of an export whose messages are there already, as the export has
// them. The error is that of the connection.
func (b *bulk) settle(ctx context.Context, of *batch) error {
	inUse := make(map[string][]int) // indexes of messages of an export, by their topics
	for i, r := range of.results {
		switch {
		case r.Err == nil:
		case of.messages[i].Restore != nil && errors.Is(r.Err, notify.ErrExists):
			inUse[of.messages[i].Topic] = append(inUse[of.messages[i].Topic], i)
		default:
			of.faults[of.lines[i]] = r.Err
		}
	}
	for topic, indexes := range inUse {
		members := make([]string, len(indexes))
		for n, i := range indexes {
			members[n] = record.Member(topic, of.messages[i].ID)
		}
		looks, err := b.session.store.Of(topic).Inspect(ctx, topic, members)
		if err != nil {
			return err
		}
		for n, i := range indexes {
			if isThere(&of.messages[i], &looks[n]) {
				b.unchanged++
			} else {
				of.faults[of.lines[i]] = of.results[i].Err
			}
		}
	}
	return nil
}

// isThere reports whether what is there of an id is the message of an export, wherever it is by now: published at the same time, and the
// same in all that its publisher said.
func isThere(m *notify.Message, look *store.Inspected) bool {
	if look.Fault != nil || look.State == 0 || !look.Published.Equal(m.Restore.Published) {
		return false
	}
	var exported record.Record
	fields.Fill(&exported, m)
	if of := m.Restore.Schedule; of != "" {
		exported.Key = store.ScheduleKey(of)
	}
	want, bad := exported.EncodeTail()
	got, worse := look.EncodeTail()
	return bad == nil && worse == nil && want == got
}
