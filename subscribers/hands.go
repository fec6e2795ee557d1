package subscribers

import (
	"sync"
	"time"
)

// slowClaim is how long a claim may keep free hands from other shards. What one that takes
// longer brings may be too much, and is released then.
const slowClaim = 20 * time.Millisecond

// hands are goroutines that handle work, up to terms.concurrency, and the queue of what
// waits for them. They are those of one engine, or of one for each shard, which claims,
// settles and extends leases there, so that a shard that does not answer delays no other.
// The mutex guards these engines, too.
type hands[W any] struct {
	handling sync.WaitGroup
	claims   sync.WaitGroup // goroutines that claim; when they have ended nothing more is queued

	mu        sync.Mutex
	engines   []*engine[W]  // do not change once they run
	turns     int           // how often one of several engines claimed
	asked     int           // how much they claim now
	queue     []*job[W]     // claimed, not begun
	open      int           // queued or being handled
	circuit   int           // how often a handler returned a NotNow
	fresh     int           // of those open that were queued since the last of these, and the one that returned it
	busy      int           // goroutines that handle
	mean      time.Duration // of handling a piece of work, a moving average
	openUntil time.Time     // until when nothing is claimed, after a NotNow
	probe     bool          // one piece of work is claimed at a time, after a NotNow, whatever the hands do that had work before
	notNows   int           // how often there was a NotNow, or what was queued was released
}

// first returns the engine that claims next: of those that wait for free hands, and one that
// wants to claim now, the one that claimed longest ago. The mutex is held.
func (h *hands[W]) first(now *engine[W]) *engine[W] {
	for _, e := range h.engines {
		if e.waits && (now == nil || e.turn < now.turn) {
			now = e
		}
	}
	return now
}

// wake has the next engine claim if hands are free. The mutex is held.
func (h *hands[W]) wake() {
	if next := h.first(nil); next != nil && next.free() > 0 {
		signal(next.freed)
	}
}

// ask counts what one of several engines claims as if it was there, for a while. The mutex is held.
func (e *engine[W]) ask(n int) {
	if n == 0 || len(e.engines) == 1 {
		return
	}
	e.turns++
	e.turn, e.asks, e.asked = e.turns, n, e.asked+n
	e.slow = time.AfterFunc(slowClaim, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.answered()
	})
}

// answered counts it no more. The mutex is held.
func (e *engine[W]) answered() {
	e.asks, e.asked = 0, e.asked-e.asks
	e.wake()
}
