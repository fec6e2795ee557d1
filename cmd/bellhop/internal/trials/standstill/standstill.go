// Package standstill judges bounds on real time. A busy machine lets a process wait, and what was
// to happen in time is late through no fault of Bellhop. A Watch is a loop that does nothing but
// note when it was late itself, and a bound is stretched by the slack and by exactly those gaps:
// that the process under test was slow, or the test busy, excuses nothing.
package standstill

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// Slack is added to each stated bound.
var Slack = flag.Duration("trials.slack", time.Second, "time added to each stated bound")

const (
	tick  = 5 * time.Millisecond  // of the loop
	noted = 20 * time.Millisecond // the shortest time between two turns that is noted
)

// A Watch notes when the machine stood still while it runs.
type Watch struct {
	mu   sync.Mutex
	last time.Time // turn of the loop
	gaps []gap
}

// A gap is a time in which the loop should have had a turn.
type gap struct{ from, to time.Time }

// Start returns a Watch that runs until the test ends.
func Start(t testing.TB) *Watch {
	t.Helper()
	w := new(Watch)
	w.turn(time.Now()) // the machine may stand still before the loop begins
	storetest.Run(t, w.Run)
	return w
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	turns := time.NewTicker(tick)
	defer turns.Stop()
	for {
		w.turn(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-turns.C:
		}
	}
}

// turn notes the gap before a turn of the loop.
func (w *Watch) turn(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g, late := w.since(now); late {
		w.gaps = append(w.gaps, g)
	}
	w.last = now
}

// since returns the gap from the last turn to a time, if it is worth a note.
func (w *Watch) since(now time.Time) (g gap, late bool) {
	return gap{w.last.Add(tick), now}, !w.last.IsZero() && now.Sub(w.last) >= noted
}

// Within returns for how long the machine stood still in a period.
func (w *Watch) Within(from, to time.Time) (stood time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.gaps
	if g, late := w.since(time.Now()); late { // the machine just goes on, and the loop has had no turn yet
		all = append(all[:len(all):len(all)], g)
	}
	for _, g := range all {
		if g.from.Before(from) {
			g.from = from
		}
		if g.to.After(to) {
			g.to = to
		}
		stood += max(g.to.Sub(g.from), 0)
	}
	return stood
}

// Judge fails the test if what began at a time and ended at another took longer than its bound, Slack, and what the machine stood
// still meanwhile. The times are those of the machine's clock, such as Redis recorded them.
func (w *Watch) Judge(t testing.TB, what string, from, to time.Time, bound time.Duration) {
	t.Helper()
	took, stood := to.Sub(from), w.Within(from, to)
	t.Logf("%s took %v; the machine stood still for %v of it", what, took, stood)
	if took > bound+*Slack+stood {
		t.Errorf("%s took %v, the bound is %v; the machine stood still for %v", what, took, bound, stood)
	}
}
