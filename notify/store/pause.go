package store

import (
	"context"
	"time"
)

// Paced makes a call of a long job, and pauses as long as it took, so that the job delays others by little more than one of its calls.
func Paced(ctx context.Context, call func(context.Context) error) (took time.Duration, err error) {
	start := time.Now()
	err = call(ctx)
	took = time.Since(start)
	if err == nil {
		err = Pause(ctx, took)
	}
	return took, err
}

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
