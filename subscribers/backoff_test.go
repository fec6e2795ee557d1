package subscribers_test

import (
	"math"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/subscribers"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		b       subscribers.Backoff
		attempt int
		bound   time.Duration
	}{
		{subscribers.Backoff{}, 1, time.Second},
		{subscribers.Backoff{}, 2, 2 * time.Second},
		{subscribers.Backoff{}, 5, 16 * time.Second},
		{subscribers.Backoff{}, 11, 10 * time.Minute},
		{subscribers.Backoff{}, 1_000_000, 10 * time.Minute},
		{subscribers.Backoff{Min: 1, Max: math.MaxInt64}, 1_000, math.MaxInt64},
		{subscribers.Backoff{Min: time.Minute}, 1, time.Minute},
		{subscribers.Backoff{Min: time.Hour}, 3, time.Hour},
		{subscribers.Backoff{Min: 3 * time.Second, Max: 10 * time.Second}, 3, 10 * time.Second},
	} {
		if got := test.b.Bound(test.attempt); got != test.bound {
			t.Errorf("%+v after attempt %d: %v, want %v", test.b, test.attempt, got, test.bound)
		}
		for range 100 {
			if got := test.b.Delay(test.attempt); got < 0 || got > test.bound {
				t.Errorf("%+v after attempt %d: %v, want at most %v", test.b, test.attempt, got, test.bound)
			}
		}
	}
}
