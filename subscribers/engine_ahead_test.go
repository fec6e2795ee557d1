package subscribers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// ids returns n ids in their order.
func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%04d", i))
	}
	return all
}

// How much is claimed depends on the hands that are free and on how fast they were.
func TestClaimsAhead(t *testing.T) {
	for name, test := range map[string]struct {
		hands, ahead, open int
		mean               time.Duration
		want, low          int // low: below which it claims again
	}{
		"one hand, not known yet":         {hands: 1, ahead: 500, want: 1},
		"its hand is busy":                {hands: 1, ahead: 500, open: 1, low: 1},
		"a fast hand":                     {hands: 1, ahead: 500, mean: time.Millisecond, want: 6},
		"a very fast hand":                {hands: 1, ahead: 500, mean: time.Microsecond, want: 500},
		"at the most so many":             {hands: 1, ahead: 256, mean: time.Microsecond, want: 257},
		"a slow hand":                     {hands: 1, ahead: 500, mean: 5*time.Millisecond + 1, want: 1},
		"a hand that is just fast enough": {hands: 1, ahead: 500, mean: 5 * time.Millisecond, want: 2},
		"more than half is queued":        {hands: 1, ahead: 500, mean: time.Millisecond, open: 4, low: 4},
		"less than half is queued":        {hands: 1, ahead: 500, mean: time.Millisecond, open: 3, want: 3},
		"many hands":                      {hands: 8, ahead: 500, mean: 10 * time.Millisecond, want: 12},
		"many hands, some free":           {hands: 8, ahead: 500, mean: time.Second, open: 5, want: 3},
		"more hands than a claim brings":  {hands: 10000, ahead: 500, want: 500},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: test.hands, ahead: test.ahead}, func(t *testing.T, f *fake) {
				f.open, f.mean = test.open, test.mean
				if got := f.free(); got != test.want {
					t.Errorf("it claims %d; want %d", got, test.want)
				}
				if f.open = test.low - 1; test.low > 0 && f.free() == 0 {
					t.Errorf("it claims nothing with %d open", f.open)
				}
			})
		})
	}
}

// The mean follows what handlers take, an eighth of the way each time.
func TestMeanOfHandling(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 8 * time.Millisecond
		f.start(ids(2)...)
		f.at(time.Second)
		if want := time.Millisecond + 7*time.Millisecond/8; f.mean != want {
			t.Errorf("after two it is %v, want %v", f.mean, want)
		}
		f.add(ids(98)...)
		f.at(10 * time.Second)
		if f.mean < 7900*time.Microsecond || f.mean > 8*time.Millisecond {
			t.Errorf("after a hundred it is %v", f.mean)
		}
	})
}

// A fast hand does not wait for claims, and does not claim one by one.
func TestFastHandClaimsMany(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.takes["handle"], f.takes["claim"] = time.Millisecond, time.Millisecond
		f.mean = time.Millisecond
		f.start(ids(30)...)
		f.at(31 * time.Millisecond) // the first claim, and one after the other
		if n := len(f.notes["handle"]); n != 30 {
			t.Errorf("it handled %d", n)
		}
		for _, claim := range f.notes["claim"][1:] {
			if n := strings.Fields(claim)[1]; n != "3" && n != "4" {
				t.Errorf("it claimed %s", claim)
			}
		}
	})
}

// A slow hand takes nothing from others.
func TestSlowHandClaimsOne(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 100 * time.Millisecond
		f.start("a", "b", "c")
		f.at(time.Second)
		f.want("claim", "0s 1 [a]", "100ms 1 [b]", "200ms 1 [c]", "300ms 1 []")
		f.want("handle", "0s a", "100ms b", "200ms c")
		f.want("ack", "100ms [a]", "200ms [b]", "300ms [c]")
	})
}

// Each hand that is free is filled at once, whatever the others do.
func TestFreeHandsAreFilled(t *testing.T) {
	virtually(t, terms{concurrency: 3}, func(t *testing.T, f *fake) {
		takes := map[string]time.Duration{"a": 5 * time.Second, "b": time.Second, "c": 2 * time.Second, "d": 3 * time.Second, "e": 4 * time.Second}
		f.handler = func(ctx context.Context, id string) error { return pass(ctx, takes[id]) }
		f.start("a", "b", "c", "d", "e")
		f.at(time.Minute)
		f.want("claim", "0s 3 [a b c]", "1s 1 [d]", "2s 1 [e]", "4s 1 []")
		f.want("ack", "1s [b]", "2s [c]", "4s [d]", "5s [a]", "6s [e]")
	})
}

// The last claim brought all there was: the next ring alone makes another one.
func TestRingClaims(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.start()
		f.at(time.Hour)
		f.add("a")
		f.at(3 * time.Hour)
		f.want("claim", "0s 2 []", "1h0m0s 2 [a]")
	})
}

// A source that may not ring says when to claim again. Each claim says that anew.
func TestClaimsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		add  time.Duration // when there is more
		want []string
	}{
		"nothing comes":      {time.Hour, []string{"0s 1 []", "10s 1 []", "20s 1 []"}},
		"a ring comes first": {4 * time.Second, []string{"0s 1 []", "4s 1 [a]", "4s 1 []", "14s 1 []", "24s 1 []"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.after = 10 * time.Second
				f.start()
				time.AfterFunc(test.add, func() { f.add("a") })
				f.at(25 * time.Second)
				f.want("claim", test.want...)
			})
		})
	}
}
