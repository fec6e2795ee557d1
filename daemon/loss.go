package daemon

import (
	"context"
	"log/slog"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
)

// warnOfLoss warns of each master without an append-only file, which loses messages by a restart, also of those that replicas have: they
// follow it. A server that does not answer is asked in the next term.
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
			log.Warn("redis keeps no append-only file, so a crash of it loses messages; "+doctor.KeepRemedy, "redis", one.Address)
		}
	}
}
