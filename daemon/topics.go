package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// TopicDefaults returns the configuration's settings for topics that have none of
// their own.
func (c Config) TopicDefaults() (change notify.SettingsChange) {
	if c.MaxAttempts != 0 {
		change.Attempts = &c.MaxAttempts
	}
	if c.Lease != 0 {
		change.Lease = &c.Lease
	}
	if c.BackoffMin != 0 {
		change.BackoffMin = &c.BackoffMin
	}
	if c.BackoffMax != 0 {
		change.BackoffMax = &c.BackoffMax
	}
	return change
}

// maxBackoff is the longest backoff: beyond a year it is a mistake.
const maxBackoff = 366 * 24 * time.Hour

// checkSettings returns a joined Fault for each default of topics that is out of range,
// or is given as zero.
func (c Config) checkSettings(env []string) error {
	return errors.Join(
		ifGiven(env, "MAX_ATTEMPTS", fault.Within("attempts", "attempts", c.MaxAttempts, 1, record.MostAttempts)),
		ifGiven(env, "LEASE", fault.Within("lease", "lease", c.Lease, record.MinLease, record.MaxLease)),
		ifGiven(env, "BACKOFF_MIN", fault.Within("backoff_min", "backoff_min", c.BackoffMin, time.Millisecond, maxBackoff)),
		ifGiven(env, "BACKOFF_MAX", fault.Within("backoff_max", "backoff_max", c.BackoffMax, time.Millisecond, maxBackoff)),
		c.checkBackoff(),
	)
}

func ifGiven(env []string, name string, fault error) error {
	if environ.Get(env, envPrefix+"_"+name) == "" {
		return nil
	}
	return fault
}

// checkBackoff returns a Fault if backoff_max, set or default, is less than backoff_min.
func (c Config) checkBackoff() error {
	least, most := cmp.Or(c.BackoffMin, store.DefaultBackoffMin), cmp.Or(c.BackoffMax, store.DefaultBackoffMax)
	if most >= least || most < time.Millisecond || least > maxBackoff { // reported by the range checks
		return nil
	}
	return fault.New("backoff_max", "backoff_max %v: it is less than backoff_min, %v", fault.Short(most), fault.Short(least))
}

// FillSettings sets the configuration's defaults of topics in the store, except those
// that the store has already, and warns of each that differs. It retries until it
// succeeds or ctx ends.
func (c Config) FillSettings(ctx context.Context, s *notify.Store, log *slog.Logger) {
	change := c.TopicDefaults()
	if reflect.ValueOf(change).IsZero() {
		return
	}
	retry := outage.NewRetry(log, "cannot set the defaults of topics; retrying", "the defaults of topics are set")
	for ctx.Err() == nil {
		holds, err := s.SetForAll(ctx, change, true)
		if err == nil {
			retry.End()
			warnOfDifferences(change, holds.Settings, log)
			return
		}
		if ctx.Err() == nil {
			retry.Wait(ctx, err)
		}
	}
}

// warnOfDifferences warns of each setting that differs between the configuration and
// the store.
func warnOfDifferences(change notify.SettingsChange, holds notify.Settings, log *slog.Logger) {
	for _, apart := range api.SettingsApart(change, holds) {
		log.Warn("the store's default of topics differs from the configuration; change it with bellhop topics set '*'",
			"setting", apart.Name, "store", apart.Has, "configuration", apart.Wanted)
	}
}
