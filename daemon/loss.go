package daemon

import (
	"context"
	"log/slog"

	"github.com/bellhopd/bellhop/notify"
)

// warnOfLoss warns of each master that keeps no append-only file: if it restarts before a replica takes its place, that loses all, too. A
// server that does not answer is asked in the next term.
func warnOfLoss(ctx context.Context, s *notify.Store, log *slog.Logger) {
	servers, err := s.Servers(ctx)
	if err != nil {
		return
	}
	for _, one := range servers {
		if one.IsReplica {
			continue
		}
		if info, err := one.Info(ctx, "persistence"); err == nil && info["aof_enabled"] == "0" {
			log.Warn("redis keeps no append-only file, so a crash of it loses messages; run CONFIG SET appendonly yes, and put it into redis.conf", "redis", one.Address)
		}
	}
}
