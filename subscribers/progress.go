package subscribers

import (
	"sync/atomic"
	"time"
)

// ListenerBound is within what [Listener.Progress] is renewed as long as the
// listener works as it should, whatever becomes of Redis: that of its
// connection, and a call to Redis.
const ListenerBound = time.Minute

// Progress is when a loop last came around. The zero Progress is that of a loop
// that does not run. It is safe for concurrent use.
type Progress struct {
	last atomic.Pointer[time.Time] // it is no number, since a clock that is set must not matter
}

// Around takes note that the loop came around.
func (p *Progress) Around() {
	now := time.Now()
	p.last.Store(&now)
}

// Ended takes note that the loop does not run any more.
func (p *Progress) Ended() { p.last.Store(nil) }

// Last returns when the loop last came around; zero: it does not run.
func (p *Progress) Last() time.Time {
	if last := p.last.Load(); last != nil {
		return *last
	}
	return time.Time{}
}
