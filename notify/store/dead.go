package store

import (
	"context"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	requeueScript = script.New("requeue", script.Promised)
	purgeScript   = script.New("purge", script.Promised)
)

// MostLetters is how many dead letters one call of a long job works on, which takes about a millisecond.
const MostLetters = 50

// Letters selects dead letters of a topic: the oldest ones, or Members.
type Letters struct {
	Oldest  int // how many; zero: those of Members that are dead
	Pass    int // with Oldest: how many to skip first; Requeue alone
	Members []string
}

// Dealt counts what became of dead letters.
type Dealt struct {
	Done    int // requeued, or purged
	Left    int // not requeued, because their record is missing
	Checked int // examined: a call may stop early to stay short
}

// Requeue makes dead letters ready again, with all their attempts and their whole
// time to live. The error is that of the connection.
func (s Shard) Requeue(ctx context.Context, topic string, which Letters) (Dealt, error) {
	r, err := s.run(ctx, requeueScript, withMembers(which.Members, topic, which.Oldest, which.Pass)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.Integer()), Left: int(r.Integer()), Checked: int(r.Integer())}, r.End()
}

// Purge removes dead letters for good. The error is that of the connection.
func (s Shard) Purge(ctx context.Context, topic string, which Letters) (Dealt, error) {
	r, err := s.run(ctx, purgeScript, withMembers(which.Members, topic, which.Oldest)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.Integer()), Checked: max(which.Oldest, len(which.Members))}, r.End()
}

// CountDead returns how many dead letters a topic has. The error is that of the connection.
func (s Shard) CountDead(ctx context.Context, topic string) (int64, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return 0, err
	}
	n, err := d.client.ZCard(ctx, d.keys.Dead(topic)).Result()
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	return n, nil
}

// Reasons returns a page of all dead letters with their reasons, about limit of
// them, and the cursor of the next page; 0 is the beginning and the end. Dead
// letters that come or go meanwhile may be missing. The error is that of the
// connection, or an ErrUnfit for a store of another format.
func (s Shard) Reasons(ctx context.Context, cursor uint64, limit int64) (page []Buried, next uint64, err error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, 0, err
	}
	if cursor == 0 {
		if err := d.checkFormat(ctx); err != nil {
			return nil, 0, err
		}
	}
	fields, next, err := d.client.HScan(ctx, d.keys.Deaths(), cursor, "", limit).Result()
	if err != nil {
		return nil, 0, d.explain(ctx, err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		page = append(page, Buried{Member: fields[i], Reason: fields[i+1]})
	}
	return page, next, nil
}

// withMembers returns the arguments first, then members.
func withMembers(members []string, first ...any) []any {
	for _, member := range members {
		first = append(first, member)
	}
	return first
}
