// Package outage logs a fault that lasts: once when it begins, and once when it is
// over; and what happens often once in a while.
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

	mu    sync.Mutex
	on    bool
	state string
}

// New returns a notice that logs the message begun at a level when an outage begins,
// and the message over as information when it ends. If over is empty, it logs no end.
func New(log *slog.Logger, level slog.Level, begun, over string) *Notice {
	return &Notice{log: log, level: level, begun: begun, over: over}
}

// Begin begins an outage and logs it with keys and values. During an outage it does
// nothing.
func (n *Notice) Begin(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin(args)
}

func (n *Notice) begin(args []any) {
	if n.on {
		return
	}
	n.on, n.state = true, n.begun
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			n.state += ": " + err.Error()
		}
	}
	n.log.Log(context.Background(), n.level, n.begun, args...)
}

// End ends the outage and logs that with keys and values. Without an outage it does
// nothing.
func (n *Notice) End(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on && n.over != "" {
		n.log.Info(n.over, args...)
	}
	n.on, n.state = false, ""
}

// State returns the message of the outage that lasts, with its error, as a status shows it.
// Without an outage it is empty.
func (n *Notice) State() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// Note begins an outage if err is not nil, and ends it if err is nil.
func (n *Notice) Note(err error) {
	if err != nil {
		n.Begin("error", err)
	} else {
		n.End()
	}
}

// After begins an outage after d, unless stop is called before. Once stop has
// returned, no outage begins.
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
// fail and when they succeed again. It is for one goroutine.
type Retry struct {
	*Notice
	pause backoff.Pause
}

// NewRetry returns the pause of a loop. It logs as the notice of [New] does, at the
// level of errors.
func NewRetry(log *slog.Logger, begun, over string) *Retry {
	return &Retry{Notice: New(log, slog.LevelError, begun, over)}
}

// Wait takes the result of a call. After an error it waits, each time longer, or until
// ctx ends; after a success it returns at once. It does not log an error after ctx
// has ended.
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
