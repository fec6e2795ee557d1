package console

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify"
)

// A clock is that of Redis, by which all times of messages are.
type clock struct{ store *notify.Store }

// now returns the time; zero: Redis does not answer.
func (c clock) now(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, cache.ReadWithin)
	defer cancel()
	now, _ := c.store.Now(ctx) // what the page reads beside it tells the fault
	return now
}
