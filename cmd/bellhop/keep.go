package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/daemon/results"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// keeping returns a handler that acknowledges what another handled, and has it kept for
// some time with what the other wrote as its result.
func keeping(keep time.Duration, log *slog.Logger, handler func(context.Context, *subscribers.Delivery, io.Writer) error) subscribers.Handler {
	return func(ctx context.Context, d *subscribers.Delivery) error {
		var out product
		if err := handler(ctx, d, &out); err != nil {
			return err
		}
		if cause := context.Cause(ctx); errors.Is(cause, store.ErrCancelled) { // which an acknowledgement would undo
			return cause
		}
		if out.size > store.MaxResult {
			log.Warn("the result is too large; the message is kept without it", "topic", d.Topic, "id", d.ID, "bytes", out.size, "most", store.MaxResult)
			out.kept = nil
		}
		forgotten, err := results.Ack(ctx, log, d, notify.AckResult{Body: out.kept, Keep: keep})
		if err == nil && forgotten {
			log.Warn("the memory of redis is short; the message is acknowledged, and not kept", "topic", d.Topic, "id", d.ID)
		}
		return err
	}
}

// A product keeps what is written to it, unless that is too large for a result.
type product struct {
	kept []byte
	size int // of all that was written
}

// Write keeps p.
func (r *product) Write(p []byte) (int, error) {
	if r.size += len(p); r.size <= store.MaxResult {
		r.kept = append(r.kept, p...)
	}
	return len(p), nil
}
