// Package outage logs what does not work for a while: once when it begins, and
// once when it is over.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// A Notice logs one kind of outage. It is safe for concurrent use.
type Notice struct {
	log         *slog.Logger
	level       slog.Level
	begun, over string

	mu sync.Mutex
	on bool
}

// New returns a notice that logs begun at a level when an outage begins, and over
// as information when it ends; nothing if over is empty.
func New(log *slog.Logger, level slog.Level, begun, over string) *Notice {
	return &Notice{log: log, level: level, begun: begun, over: over}
}

// Begin logs that an outage begins, with keys and values, unless one lasts already.
func (n *Notice) Begin(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin(args)
}

func (n *Notice) begin(args []any) {
	if !n.on {
		n.on = true
		n.log.Log(context.Background(), n.level, n.begun, args...)
	}
}

// End logs that an outage is over, with keys and values, if one lasts.
func (n *Notice) End(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on && n.over != "" {
		n.log.Info(n.over, args...)
	}
	n.on = false
}

// Note begins an outage where there is an error, which it logs, and else ends it.
func (n *Notice) Note(err error) {
	if err != nil {
		n.Begin("error", err)
	} else {
		n.End()
	}
}

// After begins an outage after some time, unless stop is called before. Once stop
// has returned it begins none.
func (n *Notice) After(d time.Duration, args ...any) (stop func()) {
	var stopped bool // guarded by mu
	timer := time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !stopped {
			n.begin(args)
		}
	})
	return func() {
		timer.Stop()
		n.mu.Lock()
		defer n.mu.Unlock()
		stopped = true
	}
}

// A Retry is the pause of a loop whose calls may fail. It logs when they begin to
// fail, and when they succeed again. Only the loop uses it.
type Retry struct {
	*Notice
	pause backoff.Pause
}

// NewRetry returns the pause of a loop, which logs as [New] says, at the level of errors.
func NewRetry(log *slog.Logger, begun, over string) *Retry {
	return &Retry{Notice: New(log, slog.LevelError, begun, over)}
}

// Wait waits after a call that failed, longer from call to call, or until ctx
// ends. After one that succeeded it does not wait. An error that comes when ctx has
// ended is not logged.
func (r *Retry) Wait(ctx context.Context, err error) {
	if err == nil {
		r.End()
		r.pause.Reset()
		return
	}
	if ctx.Err() == nil {
		r.Begin("error", err)
	}
	r.pause.Wait(ctx)
}
