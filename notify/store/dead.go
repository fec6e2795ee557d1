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

// Requeue makes dead letters ready again, with all their attempts and their whole
// time to live. It returns how many it requeued, and how many it left because
// their record is missing. The error is that of the connection.
func (s Shard) Requeue(ctx context.Context, topic string, which Letters) (requeued, left int, err error) {
	r, err := s.run(ctx, requeueScript, withMembers(which.Members, topic, which.Oldest, which.Pass)...)
	if err != nil {
		return 0, 0, err
	}
	requeued, left = int(r.integer()), int(r.integer())
	return requeued, left, r.end()
}

// Purge removes dead letters for good, and returns how many. The error is that of the connection.
func (s Shard) Purge(ctx context.Context, topic string, which Letters) (purged int, err error) {
	r, err := s.run(ctx, purgeScript, withMembers(which.Members, topic, which.Oldest)...)
	if err != nil {
		return 0, err
	}
	purged = int(r.integer())
	return purged, r.end()
}

// withMembers returns first, then members.
func withMembers(members []string, first ...any) []any {
	for _, member := range members {
		first = append(first, member)
	}
	return first
}
