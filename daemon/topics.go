package daemon

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
)

// topicDefaults returns the configuration's settings for topics that have none of
// their own.
func (c Config) topicDefaults() notify.SettingsChange {
	return notify.SettingsChange{Attempts: unlessZero(c.MaxAttempts), Lease: unlessZero(c.Lease), BackoffMin: unlessZero(c.BackoffMin), BackoffMax: unlessZero(c.BackoffMax)}
}

func unlessZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// checkSettings returns a joined Fault for each default of topics that is out of range,
// or is given as zero.
func (c Config) checkSettings(env []string) error {
	return notify.SettingsChange{
		Attempts: givenOr(env, "MAX_ATTEMPTS", c.MaxAttempts, store.DefaultAttempts), Lease: givenOr(env, "LEASE", c.Lease, store.DefaultLease),
		BackoffMin: givenOr(env, "BACKOFF_MIN", c.BackoffMin, store.DefaultBackoffMin), BackoffMax: givenOr(env, "BACKOFF_MAX", c.BackoffMax, store.DefaultBackoffMax),
	}.Check()
}

// givenOr returns a value that the environment gives, else the default.
func givenOr[T any](env []string, name string, value, fallback T) *T {
	if environ.Get(env, envPrefix+"_"+name) == "" {
		return &fallback
	}
	return &value
}

// FillSettings sets the configuration's defaults of topics in the store, except those
// that the store has already, and warns of each that differs. It retries until it
// succeeds or ctx ends.
func (c Config) FillSettings(ctx context.Context, s *notify.Store, log *slog.Logger) {
	change := c.topicDefaults()
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
