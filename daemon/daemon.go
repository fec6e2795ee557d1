package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
)

// Run runs the daemon until ctx ends. Then it stops in stages, within the
// configured timeout: it finishes the call that is under way, gives up the
// carrier's lease, and closes the connections to Redis. A stop that was asked
// for is not an error. Errors: a notify.ErrUnfit, a configuration that cannot be
// used, or a stop that took too long.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	store, err := notify.Open(c.Notify())
	if err != nil {
		return err
	}
	carry, err := carrier.New(store, c.Carrier(log))
	if err != nil {
		store.Close()
		return err
	}
	log.Info("starting", "redis", store.Where(), "prefix", store.Keys().Prefix())

	// Closing the connections ends every call, so that no stage can hang.
	var late *time.Timer
	armed := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		log.Info("stopping", "within", c.ShutdownTimeout.String())
		late = time.AfterFunc(c.ShutdownTimeout, func() { store.Close() })
		close(armed)
	})
	faults := &multierror.Error{ErrorFormat: lines}
	faults = multierror.Append(faults, carry.Run(ctx))
	if !unwatch() {
		<-armed
		if !late.Stop() {
			faults = multierror.Append(faults, fmt.Errorf("stop the carrier: not done within %v", c.ShutdownTimeout))
		}
	}
	if err := store.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		faults = multierror.Append(faults, fmt.Errorf("close redis at %s: %w", store.Where(), err))
	}
	log.Info("stopped")
	return faults.ErrorOrNil()
}
