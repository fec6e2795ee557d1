package natsgate

import (
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// Claim handles a request to claim while there is no connection.
func (g *Gate) Claim(ctx context.Context, topic string, data []byte) (*nats.Msg, error) {
	return g.claim(ctx, request{name: topic, reply: "_INBOX.nobody", data: data})
}

// MaxConcurrent is how many requests are handled at the same time, MaxClaims how many of them claim.
const (
	MaxConcurrent = maxConcurrent
	MaxClaims     = maxClaims
	MaxReads      = maxReads
	MaxWaits      = maxWaits
)

// Hold reserves the memory for the bodies of claims that waited, but for some bytes, until free is called.
func (g *Gate) Hold(left int64) (free func()) {
	if !g.held.TryAcquire(maxHeld - left) {
		panic("some of it is reserved")
	}
	return func() { g.held.Release(maxHeld - left) }
}

// TakeTurns takes all turns of an endpoint, until free is called.
func (g *Gate) TakeTurns(ctx context.Context, name string) (free func(), err error) {
	i := slices.IndexFunc(g.endpoints, func(e endpoint) bool { return e.name == name })
	all := g.endpoints[i].turns
	for range cap(all) {
		if err := all.take(ctx); err != nil {
			return nil, err
		}
	}
	return func() {
		for range cap(all) {
			all.end()
		}
	}, nil
}

// IsRedacted reports whether the connection's servers show no secret.
func (g *Gate) IsRedacted(secret string) bool {
	for _, s := range g.servers {
		if strings.Contains(s.String(), secret) {
			return false
		}
	}
	return true
}

// Denied returns how many subjects are known not to be permitted on the current connection.
func (g *Gate) Denied() int {
	c := g.conn.Load()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.denied)
}
