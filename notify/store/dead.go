package store

import (
	"context"
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

// Letters are dead letters of a topic.
type Letters struct {
	Members []string
	Died    []time.Time // of each of Members, which is left alone if it died at another time; nil or a zero time: whenever it died
}

// args returns the arguments that name dead letters of a topic.
func (l Letters) args(topic string) []any {
	args := []any{topic}
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
	r, err := s.Run(ctx, requeueScript, which.args(topic)...)
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
	return Dealt{Done: int(r.Integer()), Checked: len(which.Members)}, r.End()
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
