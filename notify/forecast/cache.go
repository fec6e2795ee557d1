package forecast

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Kept is how long a Cache keeps a forecast, and LongestKept one of very many topics: a
// Cache counts for a hundredth of the time at most, until that would be longer.
const (
	Kept        = 10 * time.Second
	LongestKept = time.Minute

	timesKept = 100 // as long as it took to count
)

// mostKept is how many forecasts a Cache keeps.
const mostKept = 100

// A Cache keeps forecasts for all who ask the same. It counts once for all that ask at the
// same time. It is safe for concurrent use and needs no closing.
type Cache struct {
	store *notify.Store
	kept  func(took time.Duration) time.Duration

	mu  sync.Mutex
	all map[string]*answer // by the question
}

// An answer is a forecast that is kept, or under way.
type answer struct {
	until    time.Time     // zero: it is under way
	done     chan struct{} // closed when it is there
	forecast Forecast
	err      error
	left     bool // whoever looked for it gave up
}

// NewCache returns a cache of forecasts of a store.
func NewCache(s *notify.Store) *Cache {
	return &Cache{store: s, kept: keptFor, all: make(map[string]*answer)}
}

// Of is [Of], answered with a forecast that is at most Kept old, LongestKept if there are
// very many topics. Many callers share its slices: they must not change them.
func (c *Cache) Of(ctx context.Context, o Options) (Forecast, error) {
	o, err := o.checked()
	if err != nil {
		return Forecast{}, err
	}
	question := fmt.Sprint(o.Bucket, o.Count, o.Zone, o.Topics)
	for {
		a, first := c.answer(question)
		if first {
			began := time.Now()
			a.forecast, a.err = Of(ctx, c.store, o)
			a.left = a.err != nil && ctx.Err() != nil
			c.keep(question, a, time.Since(began))
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return Forecast{}, ctx.Err()
		}
		if first || !a.left {
			return a.forecast, a.err
		}
	}
}

// answer returns the answer to a question, and whether the caller is the first and has to find it.
func (c *Cache) answer(question string) (a *answer, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if a := c.all[question]; a != nil && (a.until.IsZero() || now.Before(a.until)) {
		return a, false
	}
	a = &answer{done: make(chan struct{})}
	c.all[question] = a
	return a, true
}

// keep keeps an answer, if it is one, and makes it known to all who wait for it.
func (c *Cache) keep(question string, a *answer, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.err != nil {
		took = 0 // a shard that is missing may be back soon
	}
	a.until = time.Now().Add(c.kept(took))
	if a.left || a.err != nil && !store.IsPartial(a.err) {
		delete(c.all, question)
	}
	c.forget()
	close(a.done)
}

// keptFor returns how long an answer is kept that took so long to find.
func keptFor(took time.Duration) time.Duration {
	return max(Kept, min(timesKept*took, LongestKept))
}

// forget removes answers that are too old, and then any until mostKept are left.
func (c *Cache) forget() {
	now := time.Now()
	for question, a := range c.all {
		if !a.until.IsZero() && (now.After(a.until) || len(c.all) > mostKept) {
			delete(c.all, question)
		}
	}
}
