package daemon_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The daemon that carries warns of a Redis that would lose messages by a crash.
func TestRedisWithoutFileIsWarnedOf(t *testing.T) {
	log := new(storetest.Log)
	c := config(t, storetest.URL())
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, c, daemon.Options{Logger: log.Logger(slog.LevelInfo)})
	})
	storetest.Eventually(t, "it warns", func() bool {
		return strings.Contains(log.String(), "keeps no append-only file") && strings.Contains(log.String(), "redis="+storetest.URL())
	})
}

// Of one with a file nobody warns.
func TestRedisWithAFileIsNotWarnedOf(t *testing.T) {
	kept := storetest.At(t, storetest.Server(t, "--appendonly", "yes").URL(), "")
	for store, want := range map[*notify.Store]int{storetest.Open(t): 1, kept: 0} {
		log := new(storetest.Log)
		daemon.WarnOfLoss(t.Context(), store, log.Logger(slog.LevelInfo))
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%s: %d warnings, want %d:\n%s", store.Address(), n, want, log)
		}
	}
}
