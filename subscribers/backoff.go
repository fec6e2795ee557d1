package subscribers

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// Backoff is how long a named listener waits before an attempt is made again:
// exponential, with full jitter (M. Brooker, "Exponential Backoff and Jitter", AWS
// Architecture Blog, 2015).
type Backoff struct {
	Min time.Duration // bound after the first attempt; zero: 1s
	Max time.Duration // bound after many; zero: 10m
}

// bound returns the longest wait after an attempt, counted from 1: Min, doubled
// for each attempt before it, and at most Max.
func (b Backoff) bound(attempt int) time.Duration {
	b = b.orDefault()
	longest := b.Min
	for ; attempt > 1; attempt-- {
		if longest > b.Max/2 {
			return b.Max
		}
		longest *= 2
	}
	return min(longest, b.Max)
}

// delay returns a random wait of less than bound.
func (b Backoff) delay(attempt int) time.Duration { return rand.N(b.bound(attempt)) }

// delayOf returns the wait after an attempt that failed: that of RetryAfter, or
// else another one.
func delayOf(err error, otherwise time.Duration) time.Duration {
	var put *retryAfter
	if errors.As(err, &put) {
		return max(put.delay, 0)
	}
	return otherwise
}

func (b Backoff) orDefault() Backoff {
	if b.Min == 0 {
		b.Min = store.DefaultBackoffMin
	}
	if b.Max == 0 {
		b.Max = max(store.DefaultBackoffMax, b.Min)
	}
	return b
}

// ErrBury is returned, or wrapped, by a handler that never wants the message
// again: it is buried at once.
var ErrBury = errors.New("buried by the handler")

// RetryAfter wraps a handler's error with the delay after which the message
// shall be due again, instead of a backoff. Without an error the reason is just that.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		err = errLater
	}
	return &retryAfter{err, delay}
}

var errLater = errors.New("put off by the handler")

type retryAfter struct {
	error
	delay time.Duration
}

func (r *retryAfter) Unwrap() error { return r.error }

// NotNow wraps a handler's error where the way is barred for all messages or
// broadcasts alike, as when the service that it calls is away. What the handler
// had is given back at once without using up an attempt, and what was claimed
// behind it, too: another process may have it. The subscriber, or named listener,
// claims nothing of its topic, or name, for the pause; then one message or
// broadcast at first, and more once that is dealt with (a circuit breaker: M.
// Nygard, "Release It!", 2007).
//
// A broadcast comes again before all that was sent later: with one process of
// concurrency 1 none overtakes it, as with a retry. A listener without a name
// ends with the error, as with any other.
func NotNow(err error, pause time.Duration) error {
	if err == nil {
		err = errLater
	}
	return &notNow{err, pause}
}

type notNow struct {
	error
	pause time.Duration
}

func (n *notNow) Unwrap() error { return n.error }

// check reports a backoff that is too short, or upside down. A zero is the default.
func (b Backoff) check() error {
	b = b.orDefault()
	switch {
	case b.Min < time.Millisecond:
		return store.Faultf("backoff_min", "backoff_min %v: the shortest is 1ms", b.Min)
	case b.Max < b.Min:
		return store.Faultf("backoff_max", "backoff_max %v: it is less than backoff_min, %v", store.Short(b.Max), store.Short(b.Min))
	}
	return nil
}
