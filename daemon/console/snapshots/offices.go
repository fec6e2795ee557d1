package snapshots

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/store"
)

// A Term is the term of office of a shard's carrier.
type Term struct {
	Shard int
	carrier.Status
	Away error // why nothing is known of the shard
}

// An officesKept is who could carry the shards.
type officesKept struct {
	store   *store.Store
	waiting cache.Value[map[int]int64]
}

// termsOf returns the term of office of each shard: see Officers.
func termsOf(ctx context.Context, s *store.Store) ([]Term, error) {
	all, err := store.Gather(ctx, s, func(ctx context.Context, shard store.Shard) (t Term, err error) {
		t.Shard = shard.Number()
		t.Status, err = carrier.Look(ctx, shard)
		return t, err
	})
	if missing, is := errors.AsType[*store.MissingError](err); is {
		for _, shard := range missing.Shards {
			all = append(all, Term{Shard: shard, Away: missing.Err})
		}
	}
	slices.SortFunc(all, func(a, b Term) int { return cmp.Compare(a.Shard, b.Shard) })
	return all, err
}

const standbysEvery = 5 * time.Second

// Standbys returns how many carriers stand by, by shard, where that is known.
func (k *officesKept) Standbys(ctx context.Context) map[int]int64 {
	type count struct {
		shard int
		n     int64
	}
	counts, _ := k.waiting.Get(ctx, cache.Keep{Age: standbysEvery}, func(ctx context.Context) (map[int]int64, error) {
		all, err := store.Gather(ctx, k.store, func(ctx context.Context, shard store.Shard) (count, error) {
			n, err := carrier.Standbys(ctx, shard)
			return count{shard.Number(), n}, err
		})
		counts := make(map[int]int64)
		for _, one := range all {
			counts[one.shard] = one.n
		}
		return counts, err
	})
	return counts
}

// An Office is who carries the shards, in a few words.
type Office struct {
	Terms  []Term
	Names  []string // of carriers
	Vacant []string // shards without a carrier
	Next   time.Time
}

// OfficeOf sums up terms of office.
func OfficeOf(terms []Term) (o Office) {
	o.Terms = terms
	for _, t := range terms {
		if t.Away != nil {
			continue
		}
		if t.Name == "" {
			o.Vacant = append(o.Vacant, strconv.Itoa(t.Shard))
		} else if !slices.Contains(o.Names, t.Name) {
			o.Names = append(o.Names, t.Name)
		}
		if !t.Next.IsZero() && (o.Next.IsZero() || t.Next.Before(o.Next)) {
			o.Next = t.Next
		}
	}
	return o
}

// One returns the only term, if there is one shard.
func (o Office) One() *Term {
	if len(o.Terms) != 1 {
		return nil
	}
	return &o.Terms[0]
}

// Carried returns how many shards have a carrier.
func (o Office) Carried() (n int) {
	for _, t := range o.Terms {
		if t.Away == nil && t.Name != "" {
			n++
		}
	}
	return n
}

// VacantText names the shards without a carrier.
func (o Office) VacantText() string {
	if len(o.Vacant) == 1 {
		return "shard " + o.Vacant[0]
	}
	return "shards " + strings.Join(o.Vacant, ", ")
}
