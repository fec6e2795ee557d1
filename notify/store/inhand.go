package store

import (
	"context"
	"fmt"
	"slices"
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

// A Holding is a message that a worker has claimed and not settled.
type Holding struct {
	Topic, ID, Worker string
	Since             time.Time // when it was claimed
}

// InHand says how many messages workers have claimed and not settled.
type InHand struct {
	Of     Held
	Oldest map[string]Holding // by topic, that which a worker that told its name has had longest
	Least  bool               // there may be more: some were not looked at
}

func (h InHand) note(l Holding) {
	if before, known := h.Oldest[l.Topic]; !known || l.Since.Before(before.Since) {
		h.Oldest[l.Topic] = l
	}
}

// Note sets the OldestLease of counts at a time by Redis's clock.
func (h InHand) Note(counts []Counts, now time.Time) {
	for i := range counts {
		if oldest, known := h.Oldest[counts[i].Topic]; known {
			counts[i].OldestLease = max(now.Sub(oldest.Since), 0)
		}
	}
}

// NoteLeases sets the OldestLease of counts as far as InHandOf knows, which it does not ask if nothing is leased. The error is that of the
// connection.
func NoteLeases(ctx context.Context, s *Store, counts []Counts) error {
	if !slices.ContainsFunc(counts, func(c Counts) bool { return c.Leased > 0 }) {
		return nil
	}
	hand, err := InHandOf(ctx, s)
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	hand.Note(counts, now)
	return err
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
	sum := InHand{Of: make(Held), Oldest: make(map[string]Holding)}
	shards, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (InHand, error) { return shard.InHand(ctx) })
	if sum.Least = IsPartial(err); err != nil && !sum.Least {
		return InHand{}, fmt.Errorf("count what is in hand: %w", err)
	}
	for _, one := range shards {
		for worker, topics := range one.Of {
			for topic, n := range topics {
				sum.Of.add(worker, topic, n)
			}
		}
		for _, lease := range one.Oldest {
			sum.note(lease)
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
// they told. It looks at 5,000 leases of a shard, those that end
// last. The error is that of the connection.
func (s Shard) InHand(ctx context.Context) (InHand, error) {
	h := InHand{Of: make(Held), Oldest: make(map[string]Holding)}
	from, skip := "+inf", int64(0)
	for range inHandPages {
		began := time.Now()
		r, err := s.Run(ctx, inHandScript, from, skip, inHandPage)
		if err != nil {
			return InHand{}, err
		}
		from, skip = r.Text(), r.Integer()
		for r.More() {
			topic, worker := r.Text(), r.Text()
			h.Of.add(worker, topic, r.Integer())
			if since, id := r.Integer(), r.Text(); since > 0 {
				h.note(Holding{Topic: topic, ID: id, Worker: worker, Since: time.UnixMilli(since)})
			}
		}
		if err := r.End(); err != nil {
			return InHand{}, err
		}
		if from == "" {
			return h, nil
		}
		if err := Pause(ctx, time.Since(began)); err != nil {
			return InHand{}, err
		}
	}
	h.Least = true
	return h, nil
}
