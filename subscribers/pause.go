package subscribers

import (
	"log/slog"

	"github.com/bellhopd/bellhop/notify/outage"
)

// newRetry returns the pause of a loop after calls to Redis that failed.
func newRetry(log *slog.Logger) *outage.Retry {
	return outage.NewRetry(log, "call to redis failed; retrying", "calls to redis succeed again")
}

// signal leaves a mark in a channel that holds one. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
