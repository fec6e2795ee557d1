package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// NewLogger returns the logger that c describes, writing to w. If w is a
// connection to systemd's journal, each line begins with its priority, as
// sd-daemon(3) defines it, and has no time: the journal keeps its own. Next to an error
// of Redis the logger writes its remedy.
func NewLogger(c Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if isJournal(w) {
		return slog.New(remedies{newJournalHandler(w, c.LogFormat, o)})
	}
	return slog.New(remedies{newHandler(w, c.LogFormat, o)})
}

// remedies adds to a record with an error of Redis what to do about it. The parts of
// the daemon cannot do that, since they do not know the settings. While Redis loads its
// data they wait: such a record is no error, but at most information.
type remedies struct{ slog.Handler }

// Handle passes on a record with the remedy.
func (h remedies) Handle(ctx context.Context, r slog.Record) error {
	var fault *reach.ServerError
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		return !ok || !errors.As(err, &fault)
	})
	if fault == nil {
		return h.Handler.Handle(ctx, r)
	}
	r = r.Clone()
	if redis.HasErrorPrefix(fault, "LOADING") {
		r.Level = min(r.Level, slog.LevelInfo)
	}
	if remedy := doctor.Remedy(fault); remedy != "" {
		r.AddAttrs(slog.String("remedy", remedy))
	}
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler whose records have attributes in common.
func (h remedies) WithAttrs(attrs []slog.Attr) slog.Handler {
	return remedies{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler whose attributes belong to a group.
func (h remedies) WithGroup(name string) slog.Handler { return remedies{h.Handler.WithGroup(name)} }

func newHandler(w io.Writer, format string, o *slog.HandlerOptions) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(terminal.JSON(w), o)
	}
	return slog.NewTextHandler(w, o)
}

// isJournal reports whether w is the stream that systemd connected to the journal, or writes to it.
func isJournal(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// Priority returns the prefix of a line of this level if w is a connection to
// systemd's journal, for text that is printed and not logged. Otherwise it is empty.
func Priority(w io.Writer, level slog.Level) string {
	if !isJournal(w) {
		return ""
	}
	return priorities[rank(level)]
}

// A journalHandler writes records with the priority of their level in front: it has a
// handler for each of the four priorities.
type journalHandler [4]slog.Handler

// priorities are those of syslog, from debug to error.
var priorities = [len(journalHandler{})]string{"<7>", "<6>", "<4>", "<3>"}

func newJournalHandler(w io.Writer, format string, o *slog.HandlerOptions) journalHandler {
	var h journalHandler
	for i, priority := range priorities {
		h[i] = newHandler(prefixed{w, priority}, format, o)
	}
	return h
}

// of returns the handler for a level. A level between two belongs to the lower one.
func (h journalHandler) of(level slog.Level) slog.Handler {
	return h[rank(level)]
}

// rank returns the index of a level's priority.
func rank(level slog.Level) int {
	switch {
	case level < slog.LevelInfo:
		return 0
	case level < slog.LevelWarn:
		return 1
	case level < slog.LevelError:
		return 2
	}
	return 3
}

// Enabled reports whether a level is logged.
func (h journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

// Handle writes a record without its time.
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{}
	return h.of(r.Level).Handle(ctx, r)
}

// WithAttrs returns a handler whose records have attributes in common.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for i, each := range h {
		h[i] = each.WithAttrs(attrs)
	}
	return h
}

// WithGroup returns a handler whose attributes belong to a group.
func (h journalHandler) WithGroup(name string) slog.Handler {
	for i, each := range h {
		h[i] = each.WithGroup(name)
	}
	return h
}

// prefixed writes a prefix in front of each record, which slog's handlers write in one
// call.
type prefixed struct {
	to     io.Writer
	prefix string
}

// Write writes the prefix and p in one call.
func (w prefixed) Write(p []byte) (int, error) {
	if _, err := w.to.Write(append([]byte(w.prefix), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TakeClientLog makes the Redis client of this process log to log, at the debug
// level: every fault that matters is returned as an error as well.
// Of several calls, which may be concurrent, the last one counts.
func TakeClientLog(log *slog.Logger) {
	clientLog.Store(log)
	takeClient() // once: the client does not guard it against its own goroutines
}

var (
	clientLog  atomic.Pointer[slog.Logger]
	takeClient = sync.OnceFunc(func() { redis.SetLogger(toClientLog{}) })
)

type toClientLog struct{}

// Printf logs a message of the client.
func (toClientLog) Printf(ctx context.Context, format string, v ...any) {
	clientLog.Load().DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
