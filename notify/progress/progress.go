// Package progress reports loops that are stuck, for watchdogs.
package progress

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A Loop notes when a loop last came around. It is safe for concurrent use.
type Loop struct {
	name  string
	bound time.Duration
	last  atomic.Pointer[time.Time] // a pointer to time.Time keeps the monotonic reading, so setting the clock is harmless
}

// New returns a loop that does not run yet, by its name in errors. While it runs
// it comes around at least once within the bound, whatever becomes of Redis.
func New(name string, bound time.Duration) *Loop { return &Loop{name: name, bound: bound} }

// Note notes that the loop came around.
func (l *Loop) Note() {
	now := time.Now()
	l.last.Store(&now)
}

// End notes that the loop does not run any more.
func (l *Loop) End() { l.last.Store(nil) }

// Last returns when the loop last came around; zero: it does not run.
func (l *Loop) Last() time.Time {
	if last := l.last.Load(); last != nil {
		return *last
	}
	return time.Time{}
}

// Alive returns an error that names the loop where it is stuck: it runs, and came
// around longer ago than its bound.
func (l *Loop) Alive() error {
	last := l.Last()
	if last.IsZero() || time.Since(last) <= l.bound {
		return nil
	}
	return fmt.Errorf("the loop of the %s last came around at %s, and should within %v", l.name, last.UTC().Format(time.RFC3339), l.bound)
}
