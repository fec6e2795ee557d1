package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var hour = cache.Keep{Age: time.Hour}

// A value is kept as long as its reader permits, an error for a second only: what was away may be back.
func TestErrorsAreKeptForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k cache.Value[int]
		reads := 0
		away := errors.New("away")
		read := func(context.Context) (int, error) {
			if reads++; reads == 1 {
				return 0, away
			}
			return reads, nil
		}
		for _, then := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {800 * time.Millisecond, 0}, {200 * time.Millisecond, 2}, {59 * time.Minute, 2}, {time.Minute, 3}} {
			time.Sleep(then.after)
			if n, err := k.Get(t.Context(), hour, read); n != then.want || (err == nil) != (n > 0) {
				t.Errorf("%v later: got %d, %v", then.after, n, err)
			}
		}
	})
}

// Whoever reads, and whoever waits for that, does so for as long as that permits.
func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k cache.Value[int]
		took := make(chan time.Duration)
		for range 2 {
			go func() {
				began := time.Now()
				_, err := k.Get(t.Context(), hour, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				took <- time.Since(began)
			}()
		}
		for range 2 {
			if d := <-took; d != cache.ReadWithin {
				t.Errorf("it took %v", d)
			}
		}
	})
}

// Who waits for what another reads leaves when its time is over, and the other goes on for all.
func TestWaitForAnother(t *testing.T) {
	t.Parallel()
	var k cache.Value[int]
	reading, answer, got := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	go func() {
		n, _ := k.Get(t.Context(), hour, func(context.Context) (int, error) {
			close(reading)
			<-answer
			return 1, nil
		})
		got <- n
	}()
	storetest.Receive(t, "it is read", reading)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(context.Context) (int, error) { return 0, errors.New("it is read twice") }
	if _, err := k.Get(ctx, hour, never); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(answer)
	if n := storetest.Receive(t, "the answer", got); n != 1 {
		t.Errorf("got %d", n)
	}
	if n, err := k.Get(t.Context(), hour, never); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// A Map keeps 200 values: another one is read each time, until one of them was not used for a while.
func TestMapIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m cache.Map[int]
		reads := make(map[string]int)
		get := func(name string) int {
			_, _ = m.Get(t.Context(), name, hour, func(context.Context) (int, error) {
				reads[name]++
				return 1, nil
			})
			return reads[name]
		}
		for i := range 2 * 200 {
			get(fmt.Sprint(i % 200))
		}
		want := func(when string, want ...int) {
			t.Helper()
			got := []int{get("another"), get("another"), get("0"), get("1")}
			if !slices.Equal(got, want) {
				t.Errorf("%s another, another, 0 and 1 were read %v times, want %v", when, got, want)
			}
		}
		want("at first", 1, 2, 1, 1)
		time.Sleep(10 * time.Second)
		get("0")
		time.Sleep(10 * time.Second)
		want("after a while", 3, 3, 1, 2)
		m.Forget("0")
		want("after one was forgotten", 3, 3, 2, 2)
		m.Clear()
		want("after all were", 4, 4, 3, 3)
	})
}
