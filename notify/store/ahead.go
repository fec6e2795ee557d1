package store

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// PageOfNotable is how many topics a page of Notable has in a survey, which takes Redis less than a millisecond.
const PageOfNotable = 100

// AheadOfSurvey returns a context in which Survey, the first page of both lists of Notable and Carrier are answered, by one call of each of
// some shards.
func AheadOfSurvey(ctx context.Context, shards []Shard, most int) context.Context {
	return ahead(ctx, shards, func(reach.Shard) []reach.Call { return surveyCalls(most) })
}

func surveyCalls(most int) []reach.Call {
	return []reach.Call{
		reach.Asks(surveyScript, most), reach.Asks(notableScript, int64(0), PageOfNotable, 0), reach.Asks(notableScript, int64(0), PageOfNotable, 1), reach.Asks(electedScript),
	}
}

// AheadOfExam is AheadOfSurvey for the first pages of Workers, Pushes, StuckGroups, InHand, AllSchedules, Backlog and Failing, too, and the settings of
// all topics: of a store that is there.
func AheadOfExam(ctx context.Context, shards []Shard, most, page int, after StuckAfter) context.Context {
	return ahead(ctx, shards, func(s reach.Shard) []reach.Call {
		calls := append(surveyCalls(most),
			reach.Asks(stuckGroupsScript, "", "0", page, after.Open.Milliseconds(), after.Restoring.Milliseconds()),
			reach.Asks(inHandScript, "+inf", int64(0), inHandPage), reach.Asks(allSchedulesScript, page, "", ""), reach.Asks(backlogScript), reach.Asks(failingScript, failingArgs()...))
		if s.Number() == 0 { // Home
			calls = append(calls, reach.Asks(workersScript, "0", scanPage), reach.Asks(pushesScript), reach.Asks(settingsScript, record.AllTopics))
		}
		return calls
	})
}

// AheadOfSettings returns a context in which the settings of topics are answered, by one call of each shard.
func (s *Store) AheadOfSettings(ctx context.Context, topics []string) context.Context {
	calls := make(map[int][]reach.Call)
	var shards []Shard
	for _, topic := range topics {
		shard := s.Of(topic)
		if n := shard.Number(); calls[n] == nil {
			shards = append(shards, shard)
		}
		calls[shard.Number()] = append(calls[shard.Number()], reach.Asks(settingsScript, topic))
	}
	return ahead(ctx, shards, func(one reach.Shard) []reach.Call { return calls[one.Number()] })
}

func ahead(ctx context.Context, shards []Shard, calls func(reach.Shard) []reach.Call) context.Context {
	all := make([]reach.Shard, len(shards))
	for i, s := range shards {
		all[i] = s.Shard
	}
	return reach.Ahead(ctx, all, calls)
}
