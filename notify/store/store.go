package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A Store is one Redis and one prefix in it, where messages are kept. It is safe
// for concurrent use; a process needs one.
type Store struct {
	*reach.Redis

	handedOver atomic.Int64 // by publishes
	watches    sync.Map     // those of each shard, by its number
}

// Open returns the store that c describes. It does not connect: the first call
// fails if Redis cannot be reached. The error joins a Fault for each field that is
// wrong, or whose file cannot be read.
func Open(c reach.Config) (*Store, error) {
	redis, err := reach.Open(c)
	return over(redis, err)
}

// OpenCalm is Open for a Redis in the memory of a test: see [reach.OpenCalm].
func OpenCalm(c reach.Config, beat time.Duration) (*Store, error) {
	redis, err := reach.OpenCalm(c, beat)
	return over(redis, err)
}

func over(redis *reach.Redis, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{Redis: redis}, nil
}

// HandedOver returns how many messages were handed over by publishes of this store,
// since it was opened: they were leased to a waiting subscriber and sent along, in
// place of a ring.
func (s *Store) HandedOver() int64 { return s.handedOver.Load() }

// A Shard is a part of a store: topics with all that belongs to them, a carrier, and
// logs, under one hash tag. Callers name a topic, and the store returns its shard. The
// methods of a Shard are the transitions: each is one script, atomic and bounded. Shards
// of one number are equal.
type Shard struct {
	reach.Shard

	store *Store
}

// at returns a shard with its transitions.
func (s *Store) at(one reach.Shard) Shard { return Shard{one, s} }

// Store returns the store of a shard.
func (s Shard) Store() *Store { return s.store }

// Of returns the shard of a topic. It does not connect: while the number of shards is
// not known, the first call on the shard learns it.
func (s *Store) Of(topic string) Shard { return s.at(s.Redis.Of(topic)) }

// Home returns the shard of what a store has only once: its secret, the registry of
// named listeners, the workers, and the settings for all topics. It is the first one.
func (s *Store) Home() Shard { return s.at(s.Redis.Home()) }

// Shards returns all shards in the order of their numbers. Errors: see [Store.Learn].
func (s *Store) Shards(ctx context.Context) ([]Shard, error) {
	all, err := s.Redis.Shards(ctx)
	if err != nil {
		return nil, err
	}
	shards := make([]Shard, len(all))
	for i, one := range all {
		shards[i] = s.at(one)
	}
	return shards, nil
}

// ShardOf is Of, and learns the number of shards first: for about a second it tries that
// again while Redis cannot be reached. Errors: see [Store.Learn].
func (s *Store) ShardOf(ctx context.Context, topic string) (Shard, error) {
	one, err := s.Redis.ShardOf(ctx, topic)
	return s.at(one), err
}
