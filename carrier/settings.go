package carrier

import (
	"context"

	"github.com/bellhopd/bellhop/notify/outage"
)

// adopt has the shard take over the settings for all topics, which the home has: as the
// term begins, and each time the home is heard again, until ctx ends. The carrier does
// not wait for that.
func (t *term) adopt(ctx context.Context) {
	if t.shard.Number() == 0 {
		return
	}
	retry := outage.NewRetry(t.log, "cannot adopt the settings for all topics; retrying", "settings for all topics are adopted again")
	for ctx.Err() == nil {
		heard := t.shares.home()
		err := t.adoptOnce(ctx)
		if retry.Wait(ctx, err); err != nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-heard:
		}
	}
}

func (t *term) adoptOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return t.shard.AdoptSettings(ctx)
}
