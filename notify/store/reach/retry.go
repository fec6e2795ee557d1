package reach

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	retryFor = time.Second
	retryMin = 20 * time.Millisecond
)

// retry makes a call, and repeats it for up to retryFor while Redis did not carry it out.
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
