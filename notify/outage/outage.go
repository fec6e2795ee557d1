// Package outage logs a fault that lasts: when it begins, when it has another kind of cause than all before, and when it is
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

	patience time.Duration // an outage that is over within it is logged as information, once

	mu     sync.Mutex
	began  time.Time // zero: there is no outage
	state  string
	causes map[string]bool // kinds of causes that were logged
}

// brief is how long an outage lasts that is over by itself, such as a planned failover.
const brief = time.Second

// New returns a notice that logs the message begun at a level when an outage begins,
// and the message over as information when it ends. If over is empty, it logs no end.
func New(log *slog.Logger, level slog.Level, begun, over string) *Notice {
	return &Notice{log: log, level: level, begun: begun, over: over}
}

// Patient has what is over within a second logged only as information, such as a planned failover. It is for a notice whose
// outage is begun again and again while it lasts.
func (n *Notice) Patient() *Notice {
	n.patience = brief
	return n
}

// Begin begins an outage and logs it with keys and values. During an outage it logs an error of another kind than those
// before: what has to be done is another thing, too.
func (n *Notice) Begin(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin(args)
}

func (n *Notice) begin(args []any) {
	if n.began.IsZero() {
		n.began = time.Now()
	}
	kind, text := causeOf(args)
	if kind == unknown && len(n.causes) > 0 {
		return
	}
	n.state = n.begun + text
	if n.causes[kind] || kind != timeout && time.Since(n.began) < n.patience {
		return
	}
	n.log.Log(context.Background(), n.level, n.begun, args...)
	if n.causes == nil {
		n.causes = make(map[string]bool)
	}
	n.causes[kind] = true
}

// End ends the outage and logs that with keys and values. Without an outage it does
// nothing.
func (n *Notice) End(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.began.IsZero() && n.over != "" {
		if n.causes == nil {
			args = append(args, "after", time.Since(n.began).Round(time.Millisecond).String(), "was", n.state)
		}
		n.log.Info(n.over, args...)
	}
	n.clear()
}

// forget ends the outage, and logs nothing.
func (n *Notice) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clear()
}

func (n *Notice) clear() { n.began, n.state, n.causes = time.Time{}, "", nil }

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
// level of errors, but what is over within a second only as information.
func NewRetry(log *slog.Logger, begun, over string) *Retry {
	return &Retry{Notice: New(log, slog.LevelError, begun, over).Patient()}
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
