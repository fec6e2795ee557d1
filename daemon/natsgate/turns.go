package natsgate

import (
	"context"
	"fmt"
)

const (
	// maxClaims is how many claims run at the same time. Each may hold the 4 MiB of bodies of one reply
	// of Redis twice, until NATS has taken them.
	maxClaims = 8

	// maxFinds and maxReads are how many searches and inspections are made at the same time. A search may hold a
	// page of max_payload a few times, and JSON has up to six bytes for one of a body.
	maxFinds, maxReads = 4, 8
)

// turns bound how many requests of a kind hold bodies at a time.
type turns chan struct{}

// take waits for a turn. The caller calls done at its end. The error is that of ctx.
func (t turns) take(ctx context.Context, what string) (done func(), err error) {
	select {
	case t <- struct{}{}:
		return t.end, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %d such requests are under way, and it waited too long; send it again: %w", what, cap(t), ctx.Err())
	}
}

// isTaken takes a turn if there is one.
func (t turns) isTaken() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turns) end() { <-t }
