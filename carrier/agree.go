package carrier

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
)

// agree keeps what the shards of a store have in common, until ctx ends: the carrier of
// home keeps the root, which says how many shards there are, and each other takes over
// home's settings for all topics. It does so as the term begins, each time the home is
// heard again, and once in each pause of the housekeeping. The carrier does not wait for that.
func (t *term) agree(ctx context.Context) {
	if t.shares.shards == 1 {
		return
	}
	once := t.redis.adopt
	retry := outage.NewRetry(t.log, "cannot adopt the settings for all topics; retrying", "settings for all topics are adopted again")
	if home := t.shard.Store().Home(); t.shard.Number() == home.Number() {
		once = t.redis.repair
		retry = outage.NewRetry(t.log, "cannot look after the key that says how many shards there are; retrying", "the key that says how many shards there are is looked after again")
	}
	for ctx.Err() == nil {
		heard := t.shares.home()
		err := within(ctx, once)
		if retry.Wait(ctx, err); err != nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-heard:
		case <-time.After(t.o.Sweep):
		}
	}
}

// within calls f with the deadline of a call.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx)
}
