package storetest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// A Log keeps what is logged or printed. It may be read while it is written.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds p.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all of the log so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often the log contains a text.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// Await waits until the log has a text.
func (l *Log) Await(t testing.TB, text string) {
	t.Helper()
	Eventually(t, "this is logged: "+text, func() bool { return l.Count(text) > 0 })
}

// Logger returns a logger that writes to the log what is of a level or above.
func (l *Log) Logger(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: least}))
}
