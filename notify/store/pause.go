package store

import (
	"context"
	"time"
)

// Pause waits for a while, as for Redis to serve others between two calls. The error is that
// of the context.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
