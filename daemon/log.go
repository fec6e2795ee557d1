package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// NewLogger returns the logger that c describes, writing to w.
func NewLogger(c Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// TakeClientLog makes the Redis client of this process log to log, at the debug
// level: every fault that matters comes back as an error as well.
func TakeClientLog(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf is what the client logs with.
func (c clientLog) Printf(ctx context.Context, format string, v ...any) {
	c.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
