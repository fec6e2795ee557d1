package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A bulk is a histogram that observes any number of equal values in one step.
type bulk struct {
	desc   *prometheus.Desc
	bounds []float64 // of the buckets, ascending

	mu     sync.Mutex
	counts []uint64 // of values in each bucket, and above all of them
	sum    float64
}

func newBulk(name, help string, bounds []float64) *bulk {
	return &bulk{desc: desc(name, help), bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (b *bulk) observe(value float64, n int) {
	i, _ := slices.BinarySearch(b.bounds, value) // a bound is part of its bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[i] += uint64(n)
	b.sum += value * float64(n)
}

// Describe implements prometheus.Collector.
func (b *bulk) Describe(to chan<- *prometheus.Desc) { to <- b.desc }

// Collect implements prometheus.Collector.
func (b *bulk) Collect(to chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	upTo, all := make(map[float64]uint64, len(b.bounds)), uint64(0)
	for i, n := range b.counts {
		if all += n; i < len(b.bounds) {
			upTo[b.bounds[i]] = all
		}
	}
	to <- prometheus.MustNewConstHistogram(b.desc, all, b.sum, upTo)
}
