package history_test

import (
	"math"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
)

// A quantile is within a bucket, a factor of the square root of two, of the true one.
func TestQuantile(t *testing.T) {
	t.Parallel()
	var h history.Histogram
	if h.Quantile(0.5) != 0 || h.Sum() != 0 {
		t.Error("an empty one has a quantile")
	}
	const n = 10_000
	late := func(i int) time.Duration {
		return time.Duration(float64(50*time.Microsecond) * math.Pow(1.001, float64(i)))
	} // up to 1.1 s
	for i := range n {
		bucket := 0
		for late(i) >= store.LateBound(bucket) {
			bucket++
		}
		h[bucket]++
	}
	last := time.Duration(0)
	for _, p := range []float64{0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		got, want := h.Quantile(p), late(int(p*n))
		if ratio := float64(got) / float64(want); got < last || ratio < 0.7 || ratio > math.Sqrt2 {
			t.Errorf("the %v quantile is %v, want %v", p, got, want)
		}
		last = got
	}
	var other history.Histogram
	other[store.LateBuckets-1] = 3 * n
	h.Add(other)
	if got := h.Quantile(0.5); h.Sum() != 4*n || got != store.LateBound(store.LateBuckets-2) || got < 209*time.Second || got > 210*time.Second {
		t.Errorf("the last bucket begins at %v", got)
	}
}
