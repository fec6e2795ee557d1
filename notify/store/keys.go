package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	keysScript  = script.New("keys")
	seatsScript = script.New("seats")
)

// A Key is a key of a topic of which messages are blocked.
type Key struct {
	Key     string
	Blocked int64     // messages
	Oldest  time.Time // due time of the first of them
	Seats   []Seat    // at most MaxSeats
}

// A Seat is a message for which others of its key wait.
type Seat struct {
	ID    string
	State record.State // Scheduled: it was put off; Dead: it bars the key; 0: it is gone, which the carrier's housekeeping notices
	By    string       // the worker that has a leased one; empty: unknown
	Since time.Time    // when that claimed it; zero: unknown
}

// KeyOrder is the order of a list of keys.
type KeyOrder string

// The orders of keys.
const (
	MostBlocked   KeyOrder = "blocked" // those of which most messages are blocked first
	OldestBlocked KeyOrder = "oldest"  // by the due time of the first blocked message
)

// What a call lists.
const (
	MaxKeys  = 500
	MaxSeats = 10 // of each key

	keysPage  = 200 // keys that Redis counts in a call: 0.75 ms
	seatsPage = 50
)

// ListKeys returns the first keys of a topic of which messages are blocked, at most limit,
// and how many there are in all. For MostBlocked it counts the messages of all keys, a page
// in each call, and misses what changes its place meanwhile. Errors: ErrInvalid, or that of
// the connection.
func ListKeys(ctx context.Context, s *Store, topic string, order KeyOrder, limit int) (keys []Key, all int64, err error) {
	if err := record.CheckAnyTopic(topic); err != nil {
		return nil, 0, err
	}
	if err := fault.Within("limit", "limit", limit, 1, MaxKeys); err != nil {
		return nil, 0, err
	}
	shard := s.Of(topic)
	switch order {
	case OldestBlocked:
		keys, all, err = shard.BlockedKeys(ctx, topic, 0, limit)
	case MostBlocked:
		keys, all, err = shard.mostBlocked(ctx, topic, limit)
	default:
		return nil, 0, fault.New("sort", "sort %.100q: use %s or %s", string(order), MostBlocked, OldestBlocked)
	}
	if err == nil {
		err = shard.ReadSeats(ctx, topic, keys)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list the keys of %s: %w", topic, err)
	}
	return keys, all, nil
}

// mostBlocked returns the keys of a topic of which most messages are blocked, and how many there are.
func (s Shard) mostBlocked(ctx context.Context, topic string, limit int) (most []Key, all int64, err error) {
	for from := 0; ; from += keysPage {
		page, all, err := s.BlockedKeys(ctx, topic, from, keysPage)
		if err != nil {
			return nil, 0, err
		}
		again := make(map[string]bool, len(page)) // its place may have changed
		for _, key := range page {
			again[key.Key] = true
		}
		most = append(slices.DeleteFunc(most, func(old Key) bool { return again[old.Key] }), page...)
		slices.SortFunc(most, func(a, b Key) int {
			return cmp.Or(cmp.Compare(b.Blocked, a.Blocked), a.Oldest.Compare(b.Oldest), cmp.Compare(a.Key, b.Key))
		})
		most = most[:min(limit, len(most))]
		if len(page) < keysPage {
			return most, all, nil
		}
	}
}

// BlockedKeys returns keys of a topic of which messages are blocked, by the due time of the first of
// these, but the first few, and how many there are. It adds no seats. The error is that of the
// connection.
func (s Shard) BlockedKeys(ctx context.Context, topic string, skip, limit int) (keys []Key, all int64, err error) {
	r, err := s.Run(ctx, keysScript, topic, skip, limit)
	if err != nil {
		return nil, 0, err
	}
	all = r.Integer()
	for r.More() {
		keys = append(keys, Key{Key: r.Text(), Blocked: r.Integer(), Oldest: record.TimeOf(r.Text())})
	}
	return keys, all, r.End()
}

// ReadSeats sets the seats of keys of a topic. The error is that of the connection.
func (s Shard) ReadSeats(ctx context.Context, topic string, keys []Key) error {
	for page := range slices.Chunk(keys, seatsPage) {
		args := []any{topic, MaxSeats}
		for _, key := range page {
			args = append(args, key.Key)
		}
		r, err := s.Run(ctx, seatsScript, args...)
		if err != nil {
			return err
		}
		for i := range page {
			page[i].Seats = nil
			for l := r.List(); l.More(); {
				page[i].Seats = append(page[i].Seats, Seat{ID: l.Text(), State: l.State(), By: l.Text(), Since: sinceOf(l.Text())})
			}
		}
		if err := r.End(); err != nil {
			return err
		}
	}
	return nil
}
