package history

import (
	"math"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// A Histogram is how many messages were how late, by buckets: the first is below 100 us, and
// each other one is wider by the square root of two than the one before.
type Histogram store.Histogram

// Add adds another histogram.
func (h *Histogram) Add(other Histogram) {
	for bucket, n := range other {
		h[bucket] += n
	}
}

// Sum returns how many messages there are.
func (h Histogram) Sum() (sum int64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// Quantile returns how late a share of the messages were at the most, such as 0.99 of
// them; zero if there are none. Within a bucket it takes them as evenly spread, so it is
// wrong by less than 42 %; of what is later than the last bound, 210 s, it returns that.
func (h Histogram) Quantile(p float64) time.Duration {
	left := p * float64(h.Sum())
	for bucket, n := range h {
		if left -= float64(n); left <= 0 && n > 0 {
			return within(bucket, 1+left/float64(n))
		}
	}
	return 0
}

// within returns the lateness that a share of a bucket is below.
func within(bucket int, share float64) time.Duration {
	upper := store.LateBound(bucket)
	if bucket == 0 {
		return time.Duration(share * float64(upper))
	}
	lower := store.LateBound(bucket - 1)
	if bucket == store.LateBuckets-1 {
		return lower
	}
	return time.Duration(float64(lower) * math.Pow(float64(upper)/float64(lower), share))
}
