package bench

import (
	"context"
	"slices"
	"sync"
	"time"
)

// tally collects how late messages were.
type tally struct {
	full chan struct{} // closed when all are there

	mu   sync.Mutex
	late []time.Duration
}

func newTally(n int) *tally {
	return &tally{full: make(chan struct{}), late: make([]time.Duration, 0, n)}
}

func (t *tally) add(late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.late) == cap(t.late) {
		return // a second delivery
	}
	if t.late = append(t.late, late); len(t.late) == cap(t.late) {
		close(t.full)
	}
}

// wait waits until all are there.
func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.full:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report reports the median, the 99th percentile and the largest, and how many were early.
func (t *tally) report(s *stage, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.late)
	early := 0
	for _, late := range t.late {
		if late < 0 {
			early++
		}
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s.report(name+", p50", ms(t.late[len(t.late)/2]), "ms")
	s.report(name+", p99", ms(t.late[len(t.late)*99/100]), "ms")
	s.report(name+", max", ms(t.late[len(t.late)-1]), "ms")
	s.report(name+", early", float64(early), "messages")
}
