package console_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A value is kept as long as a page permits, an error for a second only: what was away may be back.
func TestErrorsAreKeptForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k console.Kept
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
			if n, err := k.Get(t.Context(), time.Hour, read); n != then.want || (err == nil) != (n > 0) {
				t.Errorf("%v later: got %d, %v", then.after, n, err)
			}
		}
	})
}

// Whoever reads, and whoever waits for that, does so for as long as a page may take.
func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k console.Kept
		took := make(chan time.Duration)
		for range 2 {
			go func() {
				began := time.Now()
				_, err := k.Get(t.Context(), time.Hour, func(ctx context.Context) (int, error) {
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
			if d := <-took; d != console.ReadWithin {
				t.Errorf("it took %v", d)
			}
		}
	})
}

// Who waits for what another reads leaves when its time is over, and the other goes on for all.
func TestWaitForAnother(t *testing.T) {
	t.Parallel()
	var k console.Kept
	reading, answer, got := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	go func() {
		n, _ := k.Get(t.Context(), time.Hour, func(context.Context) (int, error) {
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
	if _, err := k.Get(ctx, time.Hour, never); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(answer)
	if n := storetest.Receive(t, "the answer", got); n != 1 {
		t.Errorf("got %d", n)
	}
	if n, err := k.Get(t.Context(), time.Hour, never); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// While a forecast is counted a page shows the one before, but none of hours ago as that of now.
func TestOldForecast(t *testing.T) {
	t.Parallel()
	if !console.ShowsForecast(time.Minute) || console.ShowsForecast(time.Hour) {
		t.Errorf("of a minute ago: %v, of an hour ago: %v", console.ShowsForecast(time.Minute), console.ShowsForecast(time.Hour))
	}
}
