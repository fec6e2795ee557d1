package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

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

// MissingIn returns the numbers of the shards that an error says did not answer: those of a
// MissingError, or that of a ServerError where the store has several; nil for other errors.
func MissingIn(err error) []int {
	var missing *MissingError
	var server *reach.ServerError
	switch {
	case errors.As(err, &missing):
		return missing.Shards
	case errors.As(err, &server):
		if number, of := server.Shard(); of {
			return []int{number}
		}
	}
	return nil
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
	reach.AtOnce(len(shards), func(i int) { answers[i], errs[i] = f(ctx, shards[i]) })
	there := answers[:0]
	missing := &MissingError{}
	for i, err := range errs {
		if err != nil {
			missing.Add(shards[i], err)
			continue
		}
		there = append(there, answers[i])
	}
	return there, missing.Among(len(shards))
}
