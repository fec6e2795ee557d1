package subscribers

import (
	"context"
	"testing"
	"time"
)

// stuckOn returns a handler that is stuck on one piece until then, and takes a while for each other.
func stuckOn(id string, until, takes time.Duration) func(context.Context, string) error {
	return func(ctx context.Context, this string) error {
		if this == id {
			return pass(ctx, until)
		}
		return pass(ctx, takes)
	}
}

// What was claimed ahead is released after 100 ms, and what comes meanwhile is left to others, until the hand is free again.
func TestStalledHandReleasesWhatItClaimedAhead(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.handler = time.Millisecond, stuckOn("b", time.Minute, time.Millisecond)
		f.start("a", "b", "c", "d")
		f.at(99 * time.Millisecond)
		f.want("release")
		f.at(30 * time.Second)
		f.want("release", "100ms [c d] and rest")
		f.add("e")
		signal(f.rung)
		f.at(50 * time.Second)
		f.want("claim", "0s 6 [a b c d]")
		f.at(61 * time.Second)
		f.want("handle", "0s a", "1ms b", "1m0.001s c", "1m0.002s d", "1m0.003s e")
	})
}

// The oldest decides: what was claimed later is released with it.
func TestStallCountsFromTheOldest(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.takes["handle"] = time.Millisecond, time.Hour
		f.start("a", "b")
		f.at(60 * time.Millisecond)
		f.add("c")
		f.at(time.Second)
		f.want("claim", "0s 6 [a b]", "60ms 4 [c]")
		f.want("release", "100ms [b c] and rest")
	})
}

// What waited for a quarter of the time of its attempt is released, not begun: it comes again with all of that.
func TestStaleWorkIsReleased(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.most, f.handler = 2*time.Millisecond, 200*time.Millisecond, stuckOn("a", 51*time.Millisecond, time.Millisecond)
		f.start("a", "b")
		f.at(time.Second)
		f.want("handle", "0s a", "51ms b")
		f.want("release", "51ms [b] and go on")
	})
}

// What waited until its lease was over may be at another process: it is forgotten.
func TestExpiredWorkIsForgotten(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.length, f.handler = 2*time.Millisecond, 30*time.Millisecond, stuckOn("a", 31*time.Millisecond, 0)
		f.fault = func(kind string, _ int) error { return map[string]error{"extend": errAway}[kind] }
		f.start("a", "b", "c")
		f.at(time.Second)
		f.want("handle", "0s a")
		f.want("release")
		f.want("ack")
		if len(f.leased) > 0 || f.open > 0 {
			t.Errorf("%d are leased, %d open", len(f.leased), f.open)
		}
	})
}
