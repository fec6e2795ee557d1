package subscribers

import (
	"errors"
	"testing"
	"time"
)

// The delay of an error that leaves the wait to the topic is that of the topic.
func TestDelayOf(t *testing.T) {
	t.Parallel()
	for put, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: 0, ByBackoff: time.Minute, -time.Hour: 0} {
		if got := delayOf(RetryAfter(errors.New("busy"), put), time.Minute); got != want {
			t.Errorf("of %v it is %v, want %v", put, got, want)
		}
	}
	if got := delayOf(errors.New("busy"), time.Minute); got != time.Minute {
		t.Errorf("without a delay it is %v", got)
	}
}
