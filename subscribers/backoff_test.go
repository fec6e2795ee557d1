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
		o       subscribers.ListenOptions
		attempt int
		bound   time.Duration
	}{
		{subscribers.ListenOptions{}, 1, time.Second},
		{subscribers.ListenOptions{}, 2, 2 * time.Second},
		{subscribers.ListenOptions{}, 5, 16 * time.Second},
		{subscribers.ListenOptions{}, 11, 10 * time.Minute},
		{subscribers.ListenOptions{}, 1_000_000, 10 * time.Minute},
		{subscribers.ListenOptions{BackoffMin: 1, BackoffMax: math.MaxInt64}, 1_000, math.MaxInt64},
		{subscribers.ListenOptions{BackoffMin: time.Minute}, 1, time.Minute},
		{subscribers.ListenOptions{BackoffMin: time.Hour}, 3, time.Hour},
		{subscribers.ListenOptions{BackoffMin: 3 * time.Second, BackoffMax: 10 * time.Second}, 3, 10 * time.Second},
	} {
		least, most := test.o.BackoffMin, test.o.BackoffMax
		if got := test.o.Bound(test.attempt); got != test.bound {
			t.Errorf("%v to %v after attempt %d: %v, want %v", least, most, test.attempt, got, test.bound)
		}
		for range 100 {
			if got := test.o.Delay(test.attempt); got < 0 || got > test.bound {
				t.Errorf("%v to %v after attempt %d: %v, want at most %v", least, most, test.attempt, got, test.bound)
			}
		}
	}
}
