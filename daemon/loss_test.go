package daemon_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The daemon that carries warns of a Redis that would lose messages by a crash.
func TestRedisWithoutFileIsWarnedOf(t *testing.T) {
	server := storetest.Server(t, "--appendonly", "no")
	log := new(logBuffer)
	c := config(t, server.URL())
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, c, daemon.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	})
	storetest.Eventually(t, "it warns", func() bool {
		return strings.Contains(log.String(), "keeps no append-only file") && strings.Contains(log.String(), "redis="+server.URL())
	})
}

// Of one with a file nobody warns.
func TestRedisWithAFileIsNotWarnedOf(t *testing.T) {
	for kept, want := range map[string]int{"no": 1, "yes": 0} {
		log := new(logBuffer)
		store := storetest.At(t, storetest.Server(t, "--appendonly", kept).URL(), "")
		daemon.WarnOfLoss(t.Context(), store, slog.New(slog.NewTextHandler(log, nil)))
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("appendonly %s: %d warnings, want %d:\n%s", kept, n, want, log)
		}
	}
}
