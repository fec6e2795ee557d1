package outage

import (
	"log/slog"
	"sync"
)

// A Many logs one kind of outage that many members may have at the same time, such as the shards that share a server: when
// the first has it, when one has another kind of cause than all before, and once when none has it any more. It is safe for
// concurrent use.
type Many struct {
	mu     sync.Mutex
	notice *Notice
	have   map[int]bool
}

// NewMany returns a notice that logs as that of [New] does.
func NewMany(log *slog.Logger, level slog.Level, begun, over string) *Many {
	return &Many{notice: New(log, level, begun, over), have: make(map[int]bool)}
}

// Patient has what is over within a second logged only as information, as [Notice.Patient] does.
func (m *Many) Patient() *Many {
	m.notice.Patient()
	return m
}

// Begin notes that a member has the outage, with keys and values.
func (m *Many) Begin(member int, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.have[member] = true
	m.notice.Begin(args...)
}

// End notes that a member does not have the outage. The last that had it logs that.
func (m *Many) End(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have[member] && len(m.have) == 1 {
		m.notice.End()
	}
	delete(m.have, member)
}

// Forget takes a member out that is there no more. It logs nothing.
func (m *Many) Forget(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.have, member); len(m.have) == 0 {
		m.notice.forget()
	}
}

// Reset takes all members out. It logs nothing.
func (m *Many) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.have)
	m.notice.forget()
}
