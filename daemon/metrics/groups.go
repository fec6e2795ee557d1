package metrics

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/notify/store"
)

// How many groups of a shard a scrape looks at in a call, and how many calls it makes at the most. A call takes a millisecond or two.
const (
	groupsAtOnce = 50
	groupCalls   = 20
)

// onlyHeld is for a look that needs none of the other groups that are stuck.
var onlyHeld = store.StuckAfter{Open: math.MaxInt64, Restoring: math.MaxInt64}

// A groupRound goes over all groups of a shard, some at each scrape.
type groupRound struct {
	at  store.StuckPage
	sum map[store.GroupState]int64 // of this round

	last map[store.GroupState]int64 // of the one before; nil: this is the first
}

// goOn looks at the next groups.
func (g *groupRound) goOn(ctx context.Context, shard store.Shard) (err error) {
	for range groupCalls {
		if g.at, err = shard.StuckGroups(ctx, groupsAtOnce, onlyHeld, g.at); err != nil {
			*g = groupRound{last: g.last}
			return err
		}
		if g.sum == nil {
			g.sum = make(map[store.GroupState]int64)
		}
		for state, n := range g.at.States {
			g.sum[state] += n
		}
		if g.at.Topic == "" {
			*g = groupRound{last: g.sum}
			return nil
		}
	}
	return nil
}

// group goes over the groups of each shard, of a store that has some. A shard that fails to answer is not up.
func (r *redisState) group(ctx context.Context, into []shardReading) {
	if len(r.rounds) != len(into) {
		r.rounds = make([]groupRound, len(into))
	}
	_, _ = store.Gather(ctx, r.store, func(ctx context.Context, shard store.Shard) (_ struct{}, err error) {
		s, round := &into[shard.Number()], &r.rounds[shard.Number()]
		if !s.up {
			return struct{}{}, nil
		}
		err = round.goOn(ctx, shard)
		s.up, s.groups = err == nil, round.last
		return struct{}{}, err
	})
}

// showGroups shows how many groups there are, once it has seen all of each shard that answers.
func (r *redisState) showGroups(to chan<- prometheus.Metric, now *reading) {
	sum := make(map[store.GroupState]int64)
	for _, s := range now.shards {
		if now.grouped && s.up && s.groups == nil {
			return
		}
		for state, n := range s.groups {
			sum[state] += n
		}
	}
	for _, state := range store.GroupStates {
		to <- prometheus.MustNewConstMetric(r.groups, prometheus.GaugeValue, float64(sum[state]), string(state))
	}
}
