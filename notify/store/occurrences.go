package store

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Occurrences returns what is known of the messages of the occurrences that a schedule noted, in their order, without bodies and results. The error is
// that of the connection.
func (s Shard) Occurrences(ctx context.Context, of *Schedule, state *ScheduleState) ([]Inspected, error) {
	members := make([]string, len(state.Occurrences))
	for i, one := range state.Occurrences {
		members[i] = record.Member(of.Topic, of.OccurrenceID(one.At))
	}
	if len(members) == 0 {
		return nil, nil
	}
	all, err := s.Inspect(ctx, of.Topic, members)
	for i := range all {
		all[i].Body, all[i].Result = nil, nil
	}
	return all, err
}
