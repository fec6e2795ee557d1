// Package results acknowledges messages that succeeded, so that their results are kept.
package results

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

// ackWithin is how long a try may take, also the last one after a stop.
const ackWithin = 5 * time.Second

// Ack acknowledges a message and has its result kept. It tries again while Redis is away, until ctx ends: the message succeeded. It reports
// whether the result is forgotten, since the memory of Redis is short. Errors as [subscribers.Delivery.AckWith].
func Ack(ctx context.Context, log *slog.Logger, d *subscribers.Delivery, r notify.AckResult) (forgotten bool, err error) {
	retry := outage.NewRetry(log, "cannot acknowledge a message that succeeded; retrying", "acknowledged the message that succeeded")
	for tries := 1; ; tries++ {
		forgotten, err := once(ctx, d, r)
		if notify.Retryable(err) && ctx.Err() == nil {
			retry.Wait(ctx, err)
			continue
		}
		if tries > 1 && errors.Is(err, notify.ErrLeaseLost) { // most likely by a try whose answer was lost
			err = nil
		}
		if err == nil {
			retry.End("topic", d.Topic, "id", d.ID)
		}
		return forgotten, err
	}
}

// once tries once, whether or not ctx has ended.
func once(ctx context.Context, d *subscribers.Delivery, r notify.AckResult) (forgotten bool, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), ackWithin)
	defer stop()
	return d.AckWith(ctx, r)
}
