package store

import (
	"context"
	"fmt"
)

// A Holder is a worker that has messages of a topic in hand.
type Holder struct{ Worker, Topic string }

// InHand says how many messages workers have claimed and not settled.
type InHand struct {
	Of    map[Holder]int64 // by the names that workers told
	Least bool             // there may be more: some were not looked at
}

// By returns how many messages a worker has in hand of the topics that show permits.
func (h InHand) By(worker string, show func(topic string) bool) (sum int64) {
	for holder, n := range h.Of {
		if holder.Worker == worker && show(holder.Topic) {
			sum += n
		}
	}
	return sum
}

// InHandOf returns how many messages workers have in hand, by name. It looks at no more than
// 5,000 leases of each shard, and at none of shards that are away. The error is that of the
// connection, if no shard answers.
func InHandOf(ctx context.Context, s *Store) (InHand, error) {
	sum := InHand{Of: make(map[Holder]int64)}
	shards, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (one InHand, err error) {
		of, all, err := shard.InHand(ctx)
		return InHand{of, !all}, err
	})
	if sum.Least = IsPartial(err); err != nil && !sum.Least {
		return InHand{}, fmt.Errorf("count what is in hand: %w", err)
	}
	for _, one := range shards {
		for holder, n := range one.Of {
			sum.Of[holder] += n
		}
		sum.Least = sum.Least || one.Least
	}
	return sum, nil
}

// Bounds of InHand: a page takes Redis less than a millisecond.
const (
	inHandPage  = 250
	inHandPages = 20
)

// InHand returns how many messages workers have claimed and not settled, by the names that
// they told, and whether it looked at all leases: it looks at 5,000 of a shard, those that end
// last. The error is that of the connection.
func (s Shard) InHand(ctx context.Context) (held map[Holder]int64, all bool, err error) {
	held = make(map[Holder]int64)
	from, skip := "+inf", int64(0)
	for range inHandPages {
		r, err := s.run(ctx, inHandScript, from, skip, inHandPage)
		if err != nil {
			return nil, false, err
		}
		from, skip = r.text(), r.integer()
		for r.more() {
			topic, worker := r.text(), r.text()
			held[Holder{worker, topic}] += r.integer()
		}
		if err := r.end(); err != nil {
			return nil, false, err
		}
		if from == "" {
			return held, true, nil
		}
	}
	return held, false, nil
}
