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
	n := len(t.late)
	early, _ := slices.BinarySearch(t.late, 0)
	s.report(name+", p50", ms(t.late[rank(n, 50)]), "ms", n)
	s.report(name+", p99", ms(t.late[rank(n, 99)]), "ms", n)
	s.report(name+", max", ms(t.late[n-1]), "ms", n)
	s.report(name+", early", float64(early), "messages", n)
}

// rank returns which of n sorted samples is a percentile, by the nearest rank: the
// first than which at most so many of 100 are less.
func rank(n, percent int) int { return (n*percent+99)/100 - 1 }

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
