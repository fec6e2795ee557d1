package store

import (
	"context"
	"fmt"
	"time"
)

// A Held says how many messages workers have in hand, by the names that they told and by topic.
type Held map[string]map[string]int64

func (h Held) add(worker, topic string, n int64) {
	if h[worker] == nil {
		h[worker] = make(map[string]int64)
	}
	h[worker][topic] += n
}

// InHand says how many messages workers have claimed and not settled.
type InHand struct {
	Of    Held
	Least bool // there may be more: some were not looked at
}

// By returns how many messages a worker has in hand of the topics that show permits.
func (h InHand) By(worker string, show func(topic string) bool) (sum int64) {
	for topic, n := range h.Of[worker] {
		if show(topic) {
			sum += n
		}
	}
	return sum
}

// InHandOf returns how many messages workers have in hand, by name. It looks at no more than
// 5,000 leases of each shard, and at none of shards that are away. The error is that of the
// connection, if no shard answers.
func InHandOf(ctx context.Context, s *Store) (InHand, error) {
	sum := InHand{Of: make(Held)}
	shards, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (one InHand, err error) {
		of, all, err := shard.InHand(ctx)
		return InHand{of, !all}, err
	})
	if sum.Least = IsPartial(err); err != nil && !sum.Least {
		return InHand{}, fmt.Errorf("count what is in hand: %w", err)
	}
	for _, one := range shards {
		for worker, topics := range one.Of {
			for topic, n := range topics {
				sum.Of.add(worker, topic, n)
			}
		}
		sum.Least = sum.Least || one.Least
	}
	return sum, nil
}

// Bounds of InHand: a page takes Redis less than a millisecond, and others are served before the next one.
const (
	inHandPage  = 250
	inHandPages = 20
)

// InHand returns how many messages workers have claimed and not settled, by the names that
// they told, and whether it looked at all leases: it looks at 5,000 of a shard, those that end
// last. The error is that of the connection.
func (s Shard) InHand(ctx context.Context) (held Held, all bool, err error) {
	held = make(Held)
	from, skip := "+inf", int64(0)
	for range inHandPages {
		began := time.Now()
		r, err := s.Run(ctx, inHandScript, from, skip, inHandPage)
		if err != nil {
			return nil, false, err
		}
		from, skip = r.Text(), r.Integer()
		for r.More() {
			topic, worker := r.Text(), r.Text()
			held.add(worker, topic, r.Integer())
		}
		if err := r.End(); err != nil {
			return nil, false, err
		}
		if from == "" {
			return held, true, nil
		}
		if err := Pause(ctx, time.Since(began)); err != nil {
			return nil, false, err
		}
	}
	return held, false, nil
}
