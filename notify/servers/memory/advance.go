package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// An Advance says how far a clock is moved.
type Advance struct {
	To    time.Time     // zero: to the next due time, if there is one
	Wait  time.Duration // how long, in real time, it waits at each due time until the store is quiet, once what is due was moved
	Force bool          // it goes on then, and the leases of what is in hand end as in life
}

// Advanced is what an advance brought: what the clock tells, and what the store counted meanwhile.
type Advanced struct {
	Told
	Steps int // due times at which the clock stopped
}

// Errors of an advance, which say more.
var (
	ErrAdvancing = errors.New("another advance is under way")
	ErrNotQuiet  = errors.New("the store is not quiet")
)

// Advance moves the clock from due time to due time. At each it waits until the store is quiet: what is due was moved, what is ready has no
// worker that takes it, and nothing is leased. What a handler does behind its acknowledgement is not seen. Errors: ErrAdvancing,
// ErrNotQuiet, that of ctx or that of the connection, or context.Canceled after Close; the clock stays where it is then.
func (c *Clock) Advance(ctx context.Context, a Advance) (Advanced, error) {
	if !c.moving.TryLock() {
		return Advanced{}, c.advancing()
	}
	defer c.moving.Unlock()
	if !a.To.IsZero() { // the clock shows whole microseconds
		a.To = a.To.Add(time.Microsecond - 1).Truncate(time.Microsecond)
	}
	c.aim(a.To)
	if err := c.hold(ctx); err != nil {
		return Advanced{}, err
	}
	before, err := c.Tell(ctx)
	if err != nil {
		return Advanced{}, err
	}
	w := walk{Clock: c, Advance: a, released: make(map[string]float64), dropped: make(map[string]bool)}
	if err := w.run(ctx); err != nil {
		return Advanced{}, err
	}
	after, err := c.Tell(ctx)
	after.Published, after.Acked, after.Died = after.Published-before.Published, after.Acked-before.Acked, after.Died-before.Died
	return Advanced{after, w.steps}, err
}

// advancing returns the error of an advance beside another one.
func (c *Clock) advancing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%w: it is at %s, and goes to %s; call again when it is done", ErrAdvancing, shown(c.now), shown(c.goal))
}

func shown(t time.Time) string { return t.Format(time.RFC3339Nano) }

// aim notes where an advance goes.
func (c *Clock) aim(goal time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goal = goal
}

// A walk is an advance that is under way.
type walk struct {
	*Clock
	Advance
	steps    int
	released map[string]float64 // leases that are waited for no more, and when each ends, as a score
	dropped  map[string]bool    // topics and listeners that are
}

func (w *walk) run(ctx context.Context) error {
	if err := w.settle(ctx); err != nil {
		return err
	}
	if w.To.IsZero() {
		next, err := w.next(ctx, w.Now(), true)
		if err != nil || next.IsZero() {
			return err
		}
		w.To = next
		w.aim(next)
	}
	for w.Now().Before(w.To) {
		at, err := w.next(ctx, w.Now(), false)
		if err != nil {
			return err
		}
		if at.IsZero() || at.After(w.To) {
			at = w.To
		} else {
			w.steps++
		}
		w.set(at)
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// carries is how long a carrier may take until what is due is moved, beside the wait. Time does not pass that: it would come late.
const carries = 10 * time.Second

// Between two looks whether the store is quiet.
const (
	soonest = 500 * time.Microsecond
	latest  = 10 * time.Millisecond
)

// settle has the carrier move what is due, and waits until the store is quiet.
func (w *walk) settle(ctx context.Context) error {
	maps.DeleteFunc(w.released, func(_ string, end float64) bool { return end <= float64(w.Now().UnixMicro()) })
	if err := w.redis.Publish(ctx, w.keys.Nudge(), 0).Err(); err != nil {
		return err
	}
	s := &settling{walk: w, bare: make(map[string]time.Time)}
	began := time.Now()
	moved := began
	for pause := soonest; ; pause = min(2*pause, latest) {
		quiet, err := s.isQuiet(ctx)
		switch now := time.Now(); {
		case err != nil || quiet:
			return err
		case s.due && now.Sub(began) > w.Wait+carries:
			return s.notQuiet(ctx)
		case s.due: // whoever has something in hand is waited for from then on
			moved = now
		case now.Sub(moved) > w.Wait:
			return s.giveUp(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.ended.Done():
			return w.ended.Err()
		case <-time.After(pause):
		}
	}
}

// giveUp waits no more for what is in hand, or returns an ErrNotQuiet.
func (s *settling) giveUp(ctx context.Context) error {
	if !s.Force {
		return s.notQuiet(ctx)
	}
	maps.Copy(s.released, s.leases)
	for _, name := range slices.Concat(s.held, s.ready) {
		s.dropped[name] = true
	}
	return nil
}
