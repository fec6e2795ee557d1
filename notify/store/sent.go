package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var sentScript = script.New("sent")

const sentLooked = 200 // entries of a log that one call looks at: that takes Redis a millisecond

// Sent returns the position and the due time of the last broadcast of an id that the log of
// its topic has. The position is 0 if the log has none; then the due time is that of the one
// that waits, and zero if none does. The error is that of the connection.
func (s Shard) Sent(ctx context.Context, topic, id string) (at record.Position, due time.Time, err error) {
	for after, more := record.Position(0), true; more; {
		r, err := s.Run(ctx, sentScript, topic, id, int64(after), sentLooked)
		if err != nil {
			return 0, due, err
		}
		last := r.PositionOrNone()
		if r.More() {
			at, due = r.Position(), time.UnixMicro(r.Due())
		}
		if err := r.End(); err != nil {
			return 0, due, err
		}
		after, more = last, last > after
	}
	if at > 0 {
		return at, due, nil
	}
	due, err = reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (time.Time, error) {
		ms, err := r.ZScore(ctx, k.Broadcasts(), topic+":"+id).Result()
		if errors.Is(err, redis.Nil) {
			return time.Time{}, nil
		}
		return time.UnixMilli(int64(ms)), err
	})
	return 0, due, err
}

// A Receipt says how far a named listener is with a broadcast.
type Receipt struct {
	Place  record.Position // of the last broadcast of the topic that was handed out to it; 0: none was
	Leased bool            // it was handed out, and is not acknowledged
	Until  time.Time       // the end of its lease then, which may be over
	Worker string          // the worker that has it; empty: unknown
}

// Receipts returns how far named listeners are with a broadcast, at a position in the log of
// its topic. The error is that of the connection.
func (s Shard) Receipts(ctx context.Context, topic string, at record.Position, names []string) ([]Receipt, error) {
	member := strconv.FormatInt(int64(at), 10) + " " + topic
	return reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]Receipt, error) {
		places, leases, notes := make([]*redis.StringCmd, len(names)), make([]*redis.FloatCmd, len(names)), make([]*redis.StringCmd, len(names))
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				places[i], leases[i], notes[i] = p.HGet(ctx, k.Places(name), topic), p.ZScore(ctx, k.Held(name), member), p.HGet(ctx, k.Owners(name), member)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		all := make([]Receipt, len(names))
		for i := range names {
			one := &all[i]
			one.Place = record.PositionIn(places[i].Val())
			if one.Leased = leases[i].Err() == nil; !one.Leased {
				continue
			}
			one.Until = time.UnixMilli(int64(leases[i].Val()))
			ends, worker, _ := strings.Cut(notes[i].Val(), " ")
			if ends == strconv.FormatInt(one.Until.UnixMilli(), 10) && record.CheckWorker("worker", worker) == nil { // else it is another's
				one.Worker = worker
			}
		}
		return all, nil
	})
}
