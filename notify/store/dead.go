package store

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
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
	Oldest  int     // how many; zero: those of Members that are dead
	Last    float64 // with Oldest: when the last of them died, as LastDeath returns it; zero: whenever they died
	Pass    int     // with Oldest: how many to skip first; Requeue alone
	Members []string
	Died    []time.Time // of each of Members, which is left alone if it died at another time; nil or a zero time: whenever it died
}

// args returns the arguments that select dead letters of a topic, with some before the members.
func (l Letters) args(topic string, before ...any) []any {
	last := ""
	switch {
	case l.Oldest > 0 && l.Last == 0:
		last = "+inf"
	case l.Oldest > 0:
		last = strconv.FormatFloat(l.Last, 'f', -1, 64)
	}
	args := append([]any{topic, l.Oldest, last}, before...)
	for i, member := range l.Members {
		var died time.Time
		if i < len(l.Died) {
			died = l.Died[i]
		}
		args = append(args, member, msOrAny(died))
	}
	return args
}

// msOrAny returns a time in ms; "" for a zero one.
func msOrAny(t time.Time) any {
	if t.IsZero() {
		return ""
	}
	return t.UnixMilli()
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
	r, err := s.Run(ctx, requeueScript, which.args(topic, which.Pass)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.Integer()), Left: int(r.Integer()), Checked: int(r.Integer())}, r.End()
}

// Purge removes dead letters for good. The error is that of the connection.
func (s Shard) Purge(ctx context.Context, topic string, which Letters) (Dealt, error) {
	r, err := s.Run(ctx, purgeScript, which.args(topic)...)
	if err != nil {
		return Dealt{}, err
	}
	return Dealt{Done: int(r.Integer()), Checked: max(which.Oldest, len(which.Members))}, r.End()
}

// CountDead returns how many dead letters a topic has. The error is that of the connection.
func (s Shard) CountDead(ctx context.Context, topic string) (int64, error) {
	return reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (int64, error) {
		return r.ZCard(ctx, k.Dead(topic)).Result()
	})
}

// LastDeath returns when the last dead letter of a topic died, in ms by Redis's clock; zero: there is none. The error is that of the
// connection.
func (s Shard) LastDeath(ctx context.Context, topic string) (ms float64, err error) {
	last, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]redis.Z, error) {
		return r.ZRangeWithScores(ctx, k.Dead(topic), -1, -1).Result()
	})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return last[0].Score, nil
}

// Reasons returns a page of all dead letters with their reasons, about limit of
// them, and the cursor of the next page; 0 is the beginning and the end. Dead
// letters that come or go meanwhile may be missing. The error is that of the
// connection, or an ErrUnfit for a store of another format.
func (s Shard) Reasons(ctx context.Context, cursor uint64, limit int64) (page []Buried, next uint64, err error) {
	if cursor == 0 {
		if err := s.CheckFormat(ctx); err != nil {
			return nil, 0, err
		}
	}
	found, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (scanned, error) {
		return scannedBy(r.HScan(ctx, k.Deaths(), cursor, "", limit))
	})
	if err != nil {
		return nil, 0, err
	}
	for i := 0; i+1 < len(found.page); i += 2 {
		page = append(page, Buried{Member: found.page[i], Reason: found.page[i+1]})
	}
	return page, found.next, nil
}

// withMembers returns the arguments first, then members.
func withMembers(members []string, first ...any) []any {
	for _, member := range members {
		first = append(first, member)
	}
	return first
}
