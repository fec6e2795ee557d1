package find

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Unhurried has no call of f end because its time is over.
func (f *Finder) Unhurried() { f.since = func(time.Time) time.Duration { return 0 } }

// Takes has every call of f so old, however long it took.
func (f *Finder) Takes(d time.Duration) { f.since = func(time.Time) time.Duration { return d } }

// Match reports whether a message is one that the question asks for.
func (q Query) Match(i notify.Info) bool { return q.matches(i) }
