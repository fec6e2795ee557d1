package console_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
)

// The clock of the daemon may be ahead of Redis's, or behind it.
func TestClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{-time.Hour, 0, 90 * time.Minute} {
		if got, want := console.Reckon(noon, noon.Add(-ahead), noon.Add(time.Second)), noon.Add(ahead+time.Second); !got.Equal(want) {
			t.Errorf("ahead by %v: got %v, want %v", ahead, got, want)
		}
	}
}
