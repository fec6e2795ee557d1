package natsgate

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
)

// Claim handles a request to claim while there is no connection.
func (g *Gate) Claim(ctx context.Context, topic string, data []byte) (*nats.Msg, error) {
	return g.claim(ctx, request{name: topic, reply: "_INBOX.nobody", data: data})
}

// Forget makes the gate read the secret anew.
func (g *Gate) Forget() {
	g.secret.mu.Lock()
	defer g.secret.mu.Unlock()
	g.secret.text = nil
}

// MaxInHand is how many requests are handled at the same time, MaxClaims how many of them claim.
const (
	MaxInHand = maxInHand
	MaxClaims = maxClaims
)

// IsRedacted reports whether the connection's servers show no secret.
func (g *Gate) IsRedacted(secret string) bool {
	for _, s := range g.servers {
		if strings.Contains(s.String(), secret) {
			return false
		}
	}
	return true
}

// Denied is how many subjects the connection that stands is known not to be permitted.
func (g *Gate) Denied() int {
	l := g.line.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.denied)
}
