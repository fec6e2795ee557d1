package store

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	retryFor = time.Second
	retryMin = 20 * time.Millisecond
)

// retry repeats a call that Redis did not carry out, for up to retryFor.
func retry[T any](ctx context.Context, call func() (T, error)) (T, error) {
	end := time.Now().Add(retryFor)
	for wait := retryMin; ; wait *= 2 {
		v, err := call()
		if err == nil || !NotExecuted(err) || time.Now().Add(wait).After(end) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}
