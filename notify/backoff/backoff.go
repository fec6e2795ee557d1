// Package backoff is the pause before a failed call is repeated.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// The shortest and the longest pause.
const (
	Min = 20 * time.Millisecond
	Max = time.Second
)

// A Pause doubles from Min to Max. Half of it is random, so that many processes do
// not retry in step. The zero Pause begins at Min.
type Pause struct{ next time.Duration }

// Wait waits for the pause, or until ctx ends, and doubles the next one.
func (p *Pause) Wait(ctx context.Context) {
	p.next = min(max(2*p.next, Min), Max)
	select {
	case <-ctx.Done():
	case <-time.After(p.next/2 + rand.N(p.next/2)):
	}
}

// Waited reports whether Wait was called since the last Reset.
func (p *Pause) Waited() bool { return p.next > 0 }

// Reset makes the pause begin at Min again.
func (p *Pause) Reset() { p.next = 0 }
