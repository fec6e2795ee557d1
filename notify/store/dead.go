package store

import "context"

var (
	requeueScript = script("requeue", promised)
	purgeScript   = script("purge", promised)
)

// Letters are some dead letters of a topic: the oldest, or Members.
type Letters struct {
	Oldest  int // how many; zero: those of Members that are dead
	Pass    int // how many are passed over before these, to be requeued
	Members []string
}

// Dealt is what became of dead letters.
type Dealt struct {
	Done   int // were requeued, or purged
	Left   int // were not, because their record is missing
	Looked int // were looked at: a call deals with no more than it can in a moment
}

// Requeue makes dead letters ready again, with all their attempts and their whole
// time to live. The error is that of the connection.
func (s Shard) Requeue(ctx context.Context, topic string, which Letters) (Dealt, error) {
	r, err := s.run(ctx, requeueScript, withMembers(which.Members, topic, which.Oldest, which.Pass)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.integer()), Left: int(r.integer()), Looked: int(r.integer())}, r.end()
}

// Purge removes dead letters for good. The error is that of the connection.
func (s Shard) Purge(ctx context.Context, topic string, which Letters) (Dealt, error) {
	r, err := s.run(ctx, purgeScript, withMembers(which.Members, topic, which.Oldest)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.integer()), Looked: max(which.Oldest, len(which.Members))}, r.end()
}

// CountDead returns how many dead letters a topic has. The error is that of the connection.
func (s Shard) CountDead(ctx context.Context, topic string) (int64, error) {
	n, err := s.store.client.ZCard(ctx, s.store.keys.Dead(topic)).Result()
	if err != nil {
		return 0, s.store.explain(ctx, err)
	}
	return n, nil
}

// Reasons returns a page of all dead letters with the reasons why they died, some
// so many, and the cursor of the next page; 0 begins and ends. What dies or is
// removed meanwhile may be missing. The error is that of the connection, or an
// ErrUnfit for a store of another format.
func (s Shard) Reasons(ctx context.Context, cursor uint64, limit int64) (page []Buried, next uint64, err error) {
	if cursor == 0 {
		if err := s.store.CheckFormat(ctx); err != nil {
			return nil, 0, err
		}
	}
	fields, next, err := s.store.client.HScan(ctx, s.store.keys.Deaths(), cursor, "", limit).Result()
	if err != nil {
		return nil, 0, s.store.explain(ctx, err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		page = append(page, Buried{Member: fields[i], Reason: fields[i+1]})
	}
	return page, next, nil
}

// withMembers returns first, then members.
func withMembers(members []string, first ...any) []any {
	for _, member := range members {
		first = append(first, member)
	}
	return first
}
