package console

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/cache"
)

// now returns the time by Redis's clock, by which all times of messages are.
func (c *Console) now(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, cache.ReadWithin)
	defer cancel()
	now, _ := c.store.Now(ctx) // what the page reads beside it tells the fault
	return now
}
