package subscribers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// The workers of a Claimer's entry.
const (
	mostCallers  = 100
	topicsOfEach = 10
	callerStays  = time.Minute // after its last claim, unless the lease that this gave is longer
)

// callers are the workers that claim through a Claimer under names of their own. The entry
// of the Claimer names them: claims cost nothing more in Redis, and the entry at most one
// call with each beat, while they come and go.
type callers struct {
	mu  sync.Mutex
	all map[string]*caller // at most mostCallers
}

// A caller is such a worker.
type caller struct {
	since  time.Time
	topics []string // sorted
	claims int      // under way
	until  time.Time
}

// claims notes that a worker claims from topics. It returns what notes the end of that,
// with the longest lease that it gave. A worker without a name is not noted.
func (c *callers) claims(name string, topics []string) (end func(lease time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[name]
	if one == nil && name != "" {
		one = c.add(name)
	}
	if one == nil {
		return func(time.Duration) {}
	}
	one.claims++
	for _, topic := range topics {
		if at, is := slices.BinarySearch(one.topics, topic); !is && len(one.topics) < topicsOfEach {
			one.topics = slices.Insert(slices.Clone(one.topics), at, topic) // others may read those that there were
		}
	}
	return func(lease time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.claims--
		if until := time.Now().Add(max(lease, callerStays)); until.After(one.until) {
			one.until = until
		}
	}
}

// add adds a worker, if there is room. The mutex is held.
func (c *callers) add(name string) *caller {
	if len(c.all) >= mostCallers {
		c.forget()
	}
	if len(c.all) >= mostCallers {
		return nil
	}
	if c.all == nil {
		c.all = make(map[string]*caller)
	}
	one := &caller{since: time.Now()}
	c.all[name] = one
	return one
}

// forget forgets those that are gone. The mutex is held.
func (c *callers) forget() {
	now := time.Now()
	maps.DeleteFunc(c.all, func(_ string, one *caller) bool { return one.claims == 0 && one.until.Before(now) })
}

// workers returns those that are there, by name.
func (c *callers) workers() (all []store.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		one := c.all[name]
		all = append(all, store.Caller{Name: name, Topics: one.topics, Since: one.since})
	}
	return all
}

// longest returns the longest lease of messages.
func longest(ds []Delivery) (lease time.Duration) {
	for i := range ds {
		lease = max(lease, ds[i].Lease)
	}
	return lease
}
