// Package results acknowledges messages that succeeded, so that their results are kept.
package results

import (
	"context"
	"errors"
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

// Ack acknowledges a message and has its result kept. It tries again while Redis is away, until ctx ends: the message succeeded. It reports
// whether the result is forgotten, since the memory of Redis is short. Errors as [subscribers.Delivery.AckWith].
func Ack(ctx context.Context, log *slog.Logger, d *subscribers.Delivery, r notify.AckResult) (forgotten bool, err error) {
	retry := outage.Retry{Notice: outage.New(log, slog.LevelError, "cannot acknowledge a message that succeeded; retrying", "acknowledged the message that succeeded")} // not patient: a call tries for long by itself
	for tries := 1; ; tries++ {
		forgotten, err := d.AckWith(context.WithoutCancel(ctx), r) // also after a stop
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
