package natsgate

import (
	"context"
	"fmt"
)

const (
	// maxClaims is how many claims run at the same time. Each may hold the 4 MiB of bodies of one reply
	// of Redis twice, until NATS has taken them.
	maxClaims = 8

	// maxSearches and maxReads are how many pages of messages and inspections are answered at the same time. A page may
	// hold max_payload a few times, and JSON has up to six bytes for one of a body.
	maxSearches, maxReads = 4, 8
)

// turns bound how many requests of a kind hold bodies at a time, until NATS has taken them. Nil ones bound nothing.
type turns chan struct{}

// take waits for a turn, which lasts until end. It waits no longer than a request may take. The error is that of its context.
func (t turns) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if t.try() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d such requests are under way, and it waited too long; send it again: %w", cap(t), ctx.Err())
	}
}

// try takes a turn if there is one, and reports whether there was.
func (t turns) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turns) end() {
	if t != nil {
		<-t
	}
}
