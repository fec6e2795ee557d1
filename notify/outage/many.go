package outage

import (
	"context"
	"log/slog"
	"sync"
)

// A Many logs one kind of outage that many members may have at the same time, such as the
// shards that share a server: once when the first has it, and once when none has it any
// more. It is safe for concurrent use.
type Many struct {
	log         *slog.Logger
	level       slog.Level
	begun, over string

	mu   sync.Mutex
	have map[int]bool
}

// NewMany returns a notice that logs the message begun at a level when an outage begins,
// and the message over as information when it ends.
func NewMany(log *slog.Logger, level slog.Level, begun, over string) *Many {
	return &Many{log: log, level: level, begun: begun, over: over, have: make(map[int]bool)}
}

// Begin notes that a member has the outage. The first logs it with keys and values.
func (m *Many) Begin(member int, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.have) == 0 {
		m.log.Log(context.Background(), m.level, m.begun, args...)
	}
	m.have[member] = true
}

// End notes that a member does not have the outage. The last that had it logs that.
func (m *Many) End(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have[member] && len(m.have) == 1 {
		m.log.Info(m.over)
	}
	delete(m.have, member)
}

// Forget takes a member out that is there no more. It logs nothing.
func (m *Many) Forget(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.have, member)
}

// Reset takes all members out. It logs nothing.
func (m *Many) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.have)
}
