package daemon_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The daemon that carries warns of a Redis that would lose messages by a crash, and of no other.
func TestRedisWithoutFileIsWarnedOf(t *testing.T) {
	for kept, want := range map[string]int{"no": 1, "yes": 0} {
		t.Run("appendonly "+kept, func(t *testing.T) {
			server := storetest.Server(t, "--appendonly", kept)
			c, log := config(t, server.URL()), new(logBuffer)
			c.Lease = time.Minute
			storetest.Run(t, func(ctx context.Context) error {
				return daemon.Run(ctx, c, daemon.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
			})
			store := storetest.At(t, server.URL(), c.Prefix)
			storetest.Eventually(t, "the lease is set, behind the warning", func() bool {
				got, err := store.SettingsOfAll(t.Context())
				return err == nil && got.Lease == time.Minute
			})
			if n := strings.Count(log.String(), "keeps no append-only file"); n != want || n > 0 && !strings.Contains(log.String(), "redis="+server.URL()) {
				t.Errorf("it warned %d times, want %d:\n%s", n, want, log)
			}
		})
	}
}
