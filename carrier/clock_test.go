package carrier

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestClock(t *testing.T) {
	t.Parallel()
	var c clock
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	when := func(us int64) time.Duration { return c.when(us).Sub(start) }

	// 10 ms there and back, 2 ms of them in the script: Redis was at 1,000,000 us four ms after the call began.
	c.sample(at(0), at(10), 2*time.Millisecond, 1_000_000)
	if got, want := when(1_100_000), 100*time.Millisecond; got != want {
		t.Errorf("with one sample: send at %v, want %v", got, want)
	}
	// A slower call is a worse sample, and is ignored.
	c.sample(at(20), at(120), 0, 1_040_000)
	if got, want := when(1_100_000), 100*time.Millisecond; got != want {
		t.Errorf("after a slower call: send at %v, want %v", got, want)
	}
	// A faster one replaces the best sample.
	c.sample(at(200), at(202), 0, 1_197_500)
	if got, want := when(1_297_500), 300*time.Millisecond; got != want {
		t.Errorf("after a faster call: send at %v, want %v", got, want)
	}
	// So does any when the best is old.
	c.sample(at(20_000), at(20_100), 0, 5_000_000)
	if got, want := when(5_100_000), 20_100*time.Millisecond; got != want {
		t.Errorf("after a long time: send at %v, want %v", got, want)
	}
	// And one that only a clock that was set explains.
	if set := c.sample(at(21_000), at(21_200), 0, 90_000_000); set < 83*time.Second {
		t.Errorf("it was set by %v", set)
	}
	if got, want := when(90_200_000), 21_200*time.Millisecond; got != want {
		t.Errorf("after the clock was set: send at %v, want %v", got, want)
	}
	if set := c.sample(at(22_000), at(22_002), 0, 10_900_000); set > -79*time.Second {
		t.Errorf("it was set back by %v", set)
	}
	storetest.Is(t, "it was not set", c.sample(at(23_000), at(23_200), 0, 11_900_000), 0)
	if got := c.when(record.Never); got.Before(start.Add(24 * time.Hour)) {
		t.Errorf("never is %v", got)
	}
}

func TestNudgeKeepsTheEarliest(t *testing.T) {
	t.Parallel()
	nudges := make(chan int64, 1)
	for _, due := range []string{"500", "300", "400"} {
		nudge(store.Event{Kind: reach.Received, Payload: due}, nudges)
	}
	storetest.Is(t, "it", <-nudges, 300)
	nudge(store.Event{Kind: reach.Beat, Payload: "1"}, nudges)
	if len(nudges) > 0 {
		t.Error("a beat is no nudge")
	}
	nudge(store.Event{Kind: reach.Subscribed}, nudges)
	storetest.Is(t, "it", <-nudges, 0)
}

func TestBatchAdaptsToRedis(t *testing.T) {
	t.Parallel()
	tm := newTerm(&mover{o: Options{Batch: 500, Lease: DefaultLease}}, store.Election{Epoch: 1})
	for _, test := range []struct {
		took time.Duration
		more bool
		want int
	}{
		{400 * time.Microsecond, true, 500},
		{5 * time.Millisecond, true, 250},
		{5 * time.Millisecond, false, 125},
		{700 * time.Microsecond, true, 125},
		{100 * time.Microsecond, false, 125},
		{400 * time.Microsecond, true, 250},
		{time.Second, true, 125},
	} {
		tm.adapt(test.took, test.more)
		if tm.batch != test.want {
			t.Fatalf("after %v, more is due %v: batch %d, want %d", test.took, test.more, tm.batch, test.want)
		}
	}
	for range 20 {
		tm.adapt(time.Second, true)
	}
	if tm.batch != minBatch {
		t.Errorf("batch %d, want %d", tm.batch, minBatch)
	}
}
