package daemon

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
)

// fullCalm is for how long no call may be refused until Redis counts as no longer full. At the limit one call is refused, and the next is not.
const fullCalm = 10 * time.Second

// A fullness logs that Redis refuses what makes it hold more, since it is full: once, and once that it is over.
type fullness struct {
	notice *outage.Notice
	lasts  atomic.Bool

	mu      sync.Mutex
	refused map[string]bool // scripts
	last    time.Time       // when
}

func newFullness(log *slog.Logger) *fullness {
	return &fullness{
		notice:  outage.New(log, slog.LevelError, "redis is full, so publishes are refused", "redis is no longer full"),
		refused: make(map[string]bool),
	}
}

// observe notes how a run of a script went.
func (f *fullness) observe(script string, err error) {
	isFull := errors.Is(err, notify.ErrFull)
	if !isFull && (err != nil || !f.lasts.Load()) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case isFull:
		f.refused[script], f.last = true, time.Now()
		f.lasts.Store(true)
		f.notice.Begin("error", err)
	case f.refused[script] && time.Since(f.last) > fullCalm:
		clear(f.refused)
		f.lasts.Store(false)
		f.notice.End()
	}
}
