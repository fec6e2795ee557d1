package forecast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// later returns how many messages a cache says fall due some day.
func later(t testing.TB, c *forecast.Cache, o forecast.Options) int64 {
	t.Helper()
	f, err := c.Of(t.Context(), o)
	storetest.Must(t, err)
	return f.Later
}

func TestCacheKeepsAnswers(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	c := forecast.NewCache(s)
	add := func() { storetest.Publish(t, s, notify.Message{Topic: "t", Delay: 100 * forecast.Day}) }
	add()
	if n := later(t, c, forecast.Options{}); n != 1 {
		t.Fatal(n)
	}
	add()
	storetest.Is(t, "the same question is answered with", later(t, c, forecast.Options{Bucket: time.Hour, Count: 24}), 1)
	for _, o := range []forecast.Options{{Count: 25}, {Bucket: time.Minute}, {Topics: patterns(t, "t")}, {Topics: patterns(t, "t", "u")}} {
		storetest.Is(t, fmt.Sprintf("%+v", o), later(t, c, o), 2)
	}
	short := forecast.NewCache(s)
	short.Keep(0)
	for want := int64(2); want < 5; want++ {
		storetest.Is(t, "it kept", later(t, short, forecast.Options{}), want)
		add()
	}
}

// What takes long to count is kept longer, so that counting takes little of the time.
func TestCacheKeepsWhatTakesLong(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: forecast.Kept, 100 * time.Millisecond: forecast.Kept, 500 * time.Millisecond: 50 * time.Second, time.Hour: forecast.LongestKept,
	} {
		storetest.Is(t, fmt.Sprintf("what takes %v is kept for", took), forecast.KeptFor(took), want)
	}
}

// It counts once for all who ask at the same time, and goes on if the first of them gives up.
func TestCacheCountsOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	var mu sync.Mutex
	calls := 0
	s.Observe(func(script string, _ time.Duration, _ error) {
		if script == "forecast" {
			mu.Lock()
			calls++
			mu.Unlock()
			began <- struct{}{}
			<-goOn
		}
	})
	c := forecast.NewCache(s)
	o := forecast.Options{Topics: patterns(t, "t")}
	first, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Of(first, o)
		ended <- err
	}()
	storetest.Receive(t, "the first one counts", began)
	impatient, leave := context.WithCancel(t.Context())
	leave()
	storetest.Fails(t, "one that waits and gives up gets", storetest.ErrOf(c.Of(impatient, o)), context.Canceled)
	var others sync.WaitGroup
	for range 10 {
		others.Go(func() {
			storetest.Should(t, storetest.ErrOf(c.Of(t.Context(), o)))
		})
	}
	giveUp()
	goOn <- struct{}{}
	storetest.Fails(t, "it", storetest.Receive(t, "the first one gives up", ended), context.Canceled)
	storetest.Receive(t, "another one counts", began)
	close(goOn)
	others.Wait()
	if calls != 2 {
		t.Errorf("it counted %d times", calls)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := forecast.NewCache(storetest.Open(t))
	for i := range forecast.MostKept + 50 {
		later(t, c, forecast.Options{Topics: patterns(t, "t"), Count: i + 1})
	}
	if n := c.Len(); n > forecast.MostKept {
		t.Errorf("it keeps %d", n)
	}
}

// Errors are not kept, what some shards answered is.
func TestCacheOfErrors(t *testing.T) {
	t.Parallel()
	s := storetest.ShardAway(t, 2, 1)
	c := forecast.NewCache(s)
	if _, err := c.Of(t.Context(), forecast.Options{}); !store.IsPartial(err) || c.Len() != 1 {
		t.Errorf("got %v, kept %d", err, c.Len())
	}
	away := storetest.At(t, "redis://127.0.0.1:1", "")
	c = forecast.NewCache(away)
	if _, err := c.Of(t.Context(), forecast.Options{}); !notify.Retryable(err) || c.Len() != 0 {
		t.Errorf("got %v, kept %d", err, c.Len())
	}
}
