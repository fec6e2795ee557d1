// Package backoff is the pause before something that failed is tried again.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// The least and the longest pause.
const (
	Min = 20 * time.Millisecond
	Max = time.Second
)

// A Pause doubles from Min to Max, and is random by half, so that many do not
// return in step. The zero Pause begins at Min.
type Pause struct{ next time.Duration }

// Wait waits, or until ctx ends.
func (p *Pause) Wait(ctx context.Context) {
	p.next = min(max(2*p.next, Min), Max)
	select {
	case <-ctx.Done():
	case <-time.After(p.next/2 + rand.N(p.next/2)):
	}
}

// Waited reports whether it waited since it was reset.
func (p *Pause) Waited() bool { return p.next > 0 }

// Reset has it begin at Min again.
func (p *Pause) Reset() { p.next = 0 }
