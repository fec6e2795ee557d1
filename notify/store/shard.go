package store

// A Shard is what one hash tag of a store holds: topics with all that belongs to
// them, a carrier, and logs. A store has one; whoever calls says which topic it
// is about, and the store says where that is. Its methods are the transitions:
// each is one script, atomic and bounded.
type Shard struct{ store *Store }

// Of returns the shard of a topic.
func (s *Store) Of(topic string) Shard { return Shard{s} }

// Shards returns all shards.
func (s *Store) Shards() []Shard { return []Shard{{s}} }

// Only returns the one shard that a store has: for what looks at all of it at once.
func (s *Store) Only() Shard { return Shard{s} }

// Home returns the shard of what a store has once: its secret, and the registry of named listeners.
func (s *Store) Home() Shard { return Shard{s} }

// Store returns the store of a shard.
func (s Shard) Store() *Store { return s.store }
