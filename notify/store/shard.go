package store

// A Shard is the part of a store under one hash tag: topics with all that belongs
// to them, a carrier, and logs. A store has one shard for now; callers name a topic,
// and the store returns its shard. The methods of a Shard are the transitions: each
// is one script, atomic and bounded.
type Shard struct{ store *Store }

// Of returns the shard of a topic.
func (s *Store) Of(topic string) Shard { return Shard{s} }

// Shards returns all shards.
func (s *Store) Shards() []Shard { return []Shard{{s}} }

// Only returns the one shard of a store, for callers that work on all of it at once.
func (s *Store) Only() Shard { return Shard{s} }

// Home returns the shard of what a store has only once: its secret, and the registry of named listeners.
func (s *Store) Home() Shard { return Shard{s} }

// Store returns the store of a shard.
func (s Shard) Store() *Store { return s.store }
