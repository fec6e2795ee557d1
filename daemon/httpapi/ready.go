package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/doctor"
)

const (
	readyWithin = 2 * time.Second        // how long Redis and its pub/sub may take for a round trip
	readyFor    = 600 * time.Millisecond // how long a look stands, less 100 ms: strangers, however many, have Redis asked no more often
	fullWithin  = 200 * time.Millisecond // how long all servers may take to say how full they are
)

// readiness names the carriers whose beats arrive, without which calls work, too, a Redis
// that is full, and the shards that do not answer.
type readiness struct {
	health
	Carrier *carrierEpoch `json:"carrier"`
	Full    string        `json:"full,omitempty"`
	api.Missing
}

// carrierEpoch is that of the first shard that has a carrier. Missing are the shards that
// have none, where there are several.
type carrierEpoch struct {
	Epoch int64 `json:"epoch"`
	api.Missing
}

// carrierOf returns what is known of the carriers of all shards by their epochs; nil: no
// shard has one.
func carrierOf(heard []int64) *carrierEpoch {
	c := &carrierEpoch{}
	for shard, epoch := range heard {
		if epoch == 0 {
			c.Missing.Missing = append(c.Missing.Missing, shard)
		}
		c.Epoch = cmp.Or(c.Epoch, epoch)
	}
	if c.Epoch == 0 {
		return nil
	}
	return c
}

// A look is what was seen of Redis, and of its way of a ring.
type look struct {
	full    string
	missing api.Missing
}

// readyz reports whether Redis takes writes, and a ring comes back through its pub/sub. Of
// several shards one is enough: a part of Redis that is away must not take every daemon
// out of a load balancer. Why it is not ready is for those who may make calls: it may name
// servers, users and rights of Redis.
func (g *Gate) readyz(c *call) error {
	if g.draining.Load() {
		return errDraining
	}
	seen, err := g.lookout.Get(c.r.Context(), cache.Keep{Age: readyFor, Within: readyWithin}, g.see)
	if err == nil {
		return c.answer(http.StatusOK, readiness{health{Status: "ready"}, carrierOf(g.o.Heard()), seen.full, seen.missing})
	}
	if _, denied := g.keys.Admit(c.r); denied != nil {
		return errNotReady
	}
	if remedy := doctor.Remedy(err); remedy != "" {
		return fmt.Errorf("%w: %w; %s", errNotReady, err, remedy)
	}
	return fmt.Errorf("%w: %w", errNotReady, err)
}

// see looks at Redis.
func (g *Gate) see(ctx context.Context) (seen look, err error) {
	if seen.missing, err = api.MissingOf(g.claimer.Ping(ctx)); err == nil {
		seen.full = g.full(ctx)
	}
	return seen, err
}

// full says what a Redis that is full refuses, and what to do; empty: none is known to be
// full. A daemon is ready all the same: acknowledgements, which go through it, make room.
func (g *Gate) full(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, fullWithin)
	defer cancel()
	servers, _ := g.store.Servers(ctx)
	for _, s := range servers {
		if s.IsReplica {
			continue
		}
		info, err := s.Info(ctx, "memory")
		if m := g.store.MemoryOf(info); err == nil && m.IsFull() {
			return "Redis is full, so publishes are refused: have messages handled, cancelled or purged, or raise maxmemory"
		}
	}
	return ""
}
