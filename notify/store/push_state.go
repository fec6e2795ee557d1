package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var triedScript = script.New("tried")

// PushTried notes what the failing endpoint of a push answered, and after which pause the caller asks it again, in the shard that is Home.
// A push that does not fail stays as it is. The error is that of the connection.
func (s Shard) PushTried(ctx context.Context, name string, pause time.Duration, answer string) error {
	r, err := s.Run(ctx, triedScript, name, record.CeilMs(pause), answer)
	if err != nil {
		return fmt.Errorf("note a try of the push %s: %w", name, err)
	}
	_ = r.Integer()
	return r.End()
}

// tried fills in what tried.lua noted; nothing if that is foreign.
func (f *PushFailure) tried(text string) {
	ms, answer, whole := strings.Cut(text, " ")
	if at := record.TimeOf(ms); f != nil && whole && !at.IsZero() {
		f.Next, f.Answer = at.UTC(), answer
	}
}

// PushLeased returns how many messages of the topics of a push are leased, or how many broadcasts are to the name under which it listens:
// to the daemons, and to any other worker. The error is that of the connection, or a MissingError.
func PushLeased(ctx context.Context, s *Store, p *Push) (sum int64, err error) {
	var parts []int64
	if p.Broadcasts {
		parts, err = Gather(ctx, s, func(ctx context.Context, shard Shard) (int64, error) {
			var of ListenerProgress
			err := shard.owners(ctx, p.Listener(), &of)
			return of.Held, err
		})
	} else {
		parts, err = leasedOf(ctx, s, p.Topics)
	}
	for _, n := range parts {
		sum += n
	}
	return sum, err
}

// leasedOf returns how many messages of some topics are leased in each of their shards.
func leasedOf(ctx context.Context, s *Store, topics []string) ([]int64, error) {
	in := make(map[Shard][]string, 1)
	for _, topic := range topics {
		shard, err := s.ShardOf(ctx, topic)
		if err != nil {
			return nil, err
		}
		in[shard] = append(in[shard], topic)
	}
	return GatherFrom(ctx, slices.Collect(maps.Keys(in)), func(ctx context.Context, shard Shard) (sum int64, err error) {
		all, err := shard.Topics(ctx, in[shard])
		for _, one := range all {
			sum += one.Leased
		}
		return sum, err
	})
}
