package outage

import (
	"sync"
	"time"
)

// A Throttle limits how often a frequent event is logged. It is safe for concurrent use; the zero value is ready.
type Throttle struct {
	mu    sync.Mutex
	last  time.Time
	times int
}

// ToLog counts an event. It returns how many happened since the last log entry, or zero if
// that is less than every ago.
func (t *Throttle) ToLog(every time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times++
	if time.Since(t.last) < every {
		return 0
	}
	n := t.times
	t.last, t.times = time.Now(), 0
	return n
}
