package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A Shard is a part of a store: topics with all that belongs to them, a carrier, and
// logs, under one hash tag. Callers name a topic, and the store returns its shard. The
// methods of a Shard are the transitions: each is one script, atomic and bounded. Shards
// of one number are equal.
type Shard struct {
	store  *Store
	topic  string // names the shard; empty: the number does
	number int
}

// A shard is what a store knows of one of its shards.
type shard struct {
	*Store
	number int
	layout layout
	keys   Keys

	fit     atomic.Int32
	wasFit  atomic.Bool           // it was fit once
	check   *fitCheck             // the last one; nil before the first; guarded by background.mu
	trouble atomic.Pointer[error] // of the last call; nil: it was answered

	watches watches
}

// Of returns the shard of a topic. It does not connect: while the number of shards is
// not known, the first call on the shard learns it.
func (s *Store) Of(topic string) Shard {
	if all := s.laid.Load(); all != nil {
		return Shard{store: s, number: numberOf(topic, len(*all))}
	}
	return Shard{store: s, topic: topic}
}

// Home returns the shard of what a store has only once: its secret, the registry of
// named listeners, the workers, and the settings for all topics. It is the first one.
func (s *Store) Home() Shard { return Shard{store: s} }

// Shards returns all shards in the order of their numbers. Errors: see [Store.Learn].
func (s *Store) Shards(ctx context.Context) ([]Shard, error) {
	all, err := s.learned(ctx)
	if err != nil {
		return nil, err
	}
	handles := make([]Shard, len(all))
	for i := range all {
		handles[i] = Shard{store: s, number: i}
	}
	return handles, nil
}

// ShardOf is Of, and learns the number of shards first: for about a second it tries that
// again while Redis cannot be reached. Errors: see [Store.Learn].
func (s *Store) ShardOf(ctx context.Context, topic string) (Shard, error) {
	if s.laid.Load() == nil {
		if _, err := retry(ctx, func() ([]*shard, error) { return s.learned(ctx) }); err != nil {
			return Shard{}, err
		}
	}
	return s.Of(topic), nil
}

// numberOf returns the number of a topic's shard: its CRC-32 (IEEE 802.3, as zlib has it)
// modulo the number of shards. The broadcasts that tell of a topic's deaths are in its shard.
func numberOf(topic string, shards int) int {
	if shards == 1 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(strings.TrimPrefix(topic, DeadPrefix))) % uint32(shards))
}

// Store returns the store of a shard.
func (s Shard) Store() *Store { return s.store }

// Number returns the number of a shard, from zero on. That of a topic's shard is zero while
// the number of shards is not known.
func (s Shard) Number() int {
	if all := s.store.laid.Load(); s.topic != "" && all != nil {
		return numberOf(s.topic, len(*all))
	}
	return s.number
}

// String returns the number of a shard and how many there are, such as 3/8.
func (d *shard) String() string { return strconv.Itoa(d.number) + "/" + strconv.Itoa(d.layout.shards) }

// Label returns the number of a shard and how many there are, such as 3/8. It is empty
// if there is one, or their number is not known.
func (s Shard) Label() string {
	if all := s.store.laid.Load(); all != nil && len(*all) > 1 {
		return (*all)[s.Number()].String()
	}
	return ""
}

// Trouble is [Store.Trouble] for one shard, which the error names. It is nil while the
// number of shards is not known.
func (s Shard) Trouble() error {
	all := s.store.laid.Load()
	if all == nil {
		return nil
	}
	d := (*all)[s.Number()]
	if err := d.inTrouble(); err != nil {
		return &ServerError{Where: d.place(), Err: err}
	}
	return nil
}

// resolve returns what the store knows of a shard.
func (s Shard) resolve(ctx context.Context) (*shard, error) {
	all, err := s.store.learned(ctx)
	if err != nil {
		return nil, err
	}
	return all[s.Number()], nil
}

// handle returns the Shard of d.
func (d *shard) handle() Shard { return Shard{store: d.Store, number: d.number} }

// variant returns the variant of scripts that the shard runs.
func (d *shard) variant() variant {
	if d.isSharded() {
		return sharded
	}
	return single
}

// isSharded reports whether the store has several shards: then the names of all channels
// carry the hash tag, and what is published there is heard at the shard's server alone.
func (d *shard) isSharded() bool { return d.layout.shards > 1 }

// known returns all shards, or the root while their number is not known.
func (s *Store) known() []*shard {
	if all := s.laid.Load(); all != nil {
		return *all
	}
	return []*shard{s.root}
}

// mostAtOnce is how many shards a call on all of them works on at a time.
const mostAtOnce = 8

// atOnce calls f with 0 to n-1, several at a time, and returns when all calls have.
func atOnce(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var tasks sync.WaitGroup
	var next atomic.Int64
	for range min(n, mostAtOnce) {
		tasks.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	tasks.Wait()
}

// each calls f with each shard, several at a time. It returns the errors of those that
// answered; if none did, that of the first.
func (s *Store) each(ctx context.Context, f func(*shard) error) error {
	all, err := s.learned(ctx)
	if err != nil {
		return err
	}
	if len(all) == 1 {
		return f(all[0])
	}
	errs := make([]error, len(all))
	atOnce(len(all), func(i int) { errs[i] = f(all[i]) })
	if away := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !Retryable(err) }); len(away) == len(all) {
		return errs[0]
	}
	return errors.Join(slices.DeleteFunc(errs, Retryable)...)
}

// A MissingError is the error of a call on all shards of which some did not answer. The
// call returns what the others answered beside it.
type MissingError struct {
	Shards []int // their numbers
	Err    error // of the first of them
}

// Add adds a shard, and why it did not answer.
func (e *MissingError) Add(shard Shard, err error) {
	if e.Shards = append(e.Shards, shard.Number()); e.Err == nil {
		e.Err = err
	}
}

// Among returns the error of the call on n shards: nil if all answered, and Err alone if
// none did.
func (e *MissingError) Among(n int) error {
	switch len(e.Shards) {
	case 0:
		return nil
	case n:
		return e.Err
	}
	return e
}

// Error names the shards, and why the first is missing.
func (e *MissingError) Error() string {
	return fmt.Sprintf("shards %v are missing: %v", e.Shards, e.Err)
}

// Unwrap returns Err.
func (e *MissingError) Unwrap() error { return e.Err }

// Missing returns one MissingError for all shards that some errors name, or the first
// error that is none; nil if all are nil.
func Missing(errs ...error) error {
	all := &MissingError{}
	for _, err := range errs {
		var missing *MissingError
		switch {
		case err == nil:
		case !errors.As(err, &missing):
			return err
		default:
			all.Err = cmp.Or(all.Err, missing.Err)
			all.Shards = append(all.Shards, missing.Shards...)
		}
	}
	if all.Err == nil {
		return nil
	}
	slices.Sort(all.Shards)
	all.Shards = slices.Compact(all.Shards)
	return all
}

// IsPartial reports whether err is a MissingError: then the call returned what the other
// shards answered.
func IsPartial(err error) bool {
	var missing *MissingError
	return errors.As(err, &missing)
}

// Gather calls f with each shard of a store, several at a time, and returns the answers
// in the order of the shards. Where some shards fail it returns those of the others, and a
// MissingError; if all fail, the error of the first.
func Gather[T any](ctx context.Context, s *Store, f func(context.Context, Shard) (T, error)) ([]T, error) {
	shards, err := s.Shards(ctx)
	if err != nil {
		return nil, err
	}
	return GatherFrom(ctx, shards, f)
}

// GatherFrom is Gather for some of the shards: all have failed if these have.
func GatherFrom[T any](ctx context.Context, shards []Shard, f func(context.Context, Shard) (T, error)) ([]T, error) {
	answers, errs := make([]T, len(shards)), make([]error, len(shards))
	atOnce(len(shards), func(i int) { answers[i], errs[i] = f(ctx, shards[i]) })
	there := answers[:0]
	missing := &MissingError{}
	for i, err := range errs {
		if err == nil {
			there = append(there, answers[i])
			continue
		}
		if missing.Err == nil {
			missing.Err = err
		}
		missing.Shards = append(missing.Shards, shards[i].number)
	}
	switch {
	case missing.Err == nil:
		return there, nil
	case len(there) == 0:
		return nil, missing.Err
	}
	return there, missing
}
