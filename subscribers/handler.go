package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// defaultGrace is how long handlers may go on by default.
const defaultGrace = 20 * time.Second

// HandleOptions are the options of a topic's handler. The zero value is the
// default. How many attempts a message has, what waits are between them and how
// long a lease is are settings of the topic: see notify.Settings.
type HandleOptions struct {
	Concurrency int // messages handled at the same time, up to 10000; zero: one

	// Budget bounds what this and other handlers have in hand together; nil: each has as
	// many as its Concurrency, and some claimed ahead.
	Budget *budget.Budget

	// MinAge is for how long messages are due before they are handled: those that no
	// other subscriber of the topic claimed meanwhile. Then they are handled at once.
	// Such a handler is in no waiting list, so it takes nothing from others.
	MinAge time.Duration

	// Until ends the work for the topic when it ends, as the end of Run does that for all
	// topics: handlers may go on for the grace. nil: it ends with Run.
	Until context.Context

	// OnDead is called after this subscriber buried a message: out of attempts,
	// refused for good, expired when it was claimed, or with a record that is
	// unreadable or missing. What the carrier buries is in its log alone.
	OnDead func(Death)

	// OnDropped is called after this subscriber dropped a message, as its publisher
	// asked for (notify.FailDrop, notify.LateDrop): out of attempts, expired, or too late
	// when it was claimed.
	OnDropped func(Death)

	// OnBadJSON is called by [HandleJSON] for a message whose body cannot be
	// decoded, with the error of [encoding/json]. What it returns decides as the
	// error of a Handler does: nil acknowledges the message. If it is nil the
	// message is buried.
	OnBadJSON func(ctx context.Context, d *Delivery, err error) error
}

// fill sets the defaults and checks the rest.
func (o *HandleOptions) fill() error {
	o.Concurrency = cmp.Or(o.Concurrency, 1)
	return errors.Join(fault.Within("concurrency", "concurrency", o.Concurrency, 1, record.MaxConcurrency), checkAge(o.MinAge))
}

// fillRun sets the defaults of what runs handlers, and checks the grace.
func fillRun(grace *time.Duration, log **slog.Logger) error {
	if *grace < 0 {
		return fault.New("grace", "grace %v: it is negative; use zero or more", *grace)
	}
	if *grace == 0 {
		*grace = defaultGrace
	}
	if *log == nil {
		*log = slog.Default()
	}
	return nil
}

// A Handler handles one message. If it returns nil the message is
// acknowledged. An error rejects it: the message is due again after a backoff, or
// after the delay of RetryAfter, or dead with ErrBury; so does a panic. With
// NotNow it is released instead, and nothing of the topic is claimed for a while; with
// Snooze it is put off. Its context ends when the lease is lost (cause
// notify.ErrLeaseLost: another process may have the message), shortly before the
// message's TryTimeout (cause ErrTryTimeout: an error then uses up the attempt) and when
// the subscriber's grace has run out (cause ErrStopping: the message is released without
// using up an attempt). A handler that ends its goroutine, as runtime.Goexit does, leaves
// the message to the end of its lease.
type Handler func(ctx context.Context, d *Delivery) error

// ErrStopping is why the context of a handler ends that did not return within
// the grace. A handler that is about to stop the subscriber may return it
// itself: the message is released without using up an attempt.
var ErrStopping = errors.New("subscriber is stopping")

// ErrTryTimeout is why the context of a handler ends that took longer than the
// TryTimeout of its message allows: by up to a tenth of that, at most 50 ms, earlier, so
// that the message can be rejected while its lease lasts.
var ErrTryTimeout = errors.New("try timed out")

// ErrBury is returned, or wrapped, by a handler that never wants the message
// again: it is buried at once.
var ErrBury = errors.New("buried by the handler")

// RetryAfter wraps a handler's error with the delay after which the message
// shall be due again, instead of a backoff; ByBackoff is that, and any other negative one none. Without an error the reason is just that.
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

// delayOf returns the wait after an attempt that failed: that of RetryAfter, or
// else another one.
func delayOf(err error, otherwise time.Duration) time.Duration {
	var put *retryAfter
	if errors.As(err, &put) && put.delay != ByBackoff {
		return max(put.delay, 0)
	}
	return otherwise
}

// Snooze is the error of a handler that wants to look at the message again later: it is
// due again after the delay, or after a random wait by the backoff of its attempt if the
// delay is ByBackoff or any other negative one. No attempt is used up, nothing is wrong,
// and nothing else is held up. Wrap it to say why.
//
// A message is put off to the end of its time to live at the latest, and expires there:
// why is kept among its attempts. Without one it is put off up to 1000 times: then it is
// rejected, with that as the reason. Of a named listener a broadcast waits in
// the process that has it, up to 1000 times. A listener without a name ends with the
// error, as with any other.
func Snooze(delay time.Duration) error { return &snooze{max(delay, ByBackoff)} }

type snooze struct{ delay time.Duration }

func (*snooze) Error() string { return "put off by the handler, without an attempt" }

// snoozeOf returns the wait of a Snooze, and reports whether it is one.
func snoozeOf(err error) (delay time.Duration, is bool) {
	var put *snooze
	if errors.As(err, &put) && !errors.Is(err, ErrBury) && !errors.Is(err, ErrTryTimeout) {
		return put.delay, true
	}
	return 0, false
}

// timedOut returns the error of an attempt that timed out, with that of the handler if
// it says more.
func timedOut(err error) error {
	if err == nil || errors.Is(err, ErrTryTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ErrTryTimeout
	}
	return fmt.Errorf("%w: %w", ErrTryTimeout, err)
}

// NotNow wraps a handler's error where no message or broadcast could be handled now,
// as when the service that the handler calls is down (a circuit breaker: M. Nygard,
// "Release It!", 2007). The message is released at once without using up an attempt,
// and so are those that were claimed behind it: another process may get them. The
// subscriber, or named listener, claims nothing of its topic, or name, for the pause;
// then one message or broadcast at first, beside those that handlers still have, and more
// once that one is dealt with. How late messages are that are claimed one at a time does not
// count in the history, nor as the topic's.
//
// A broadcast comes again before all those that were sent later: with one process of
// concurrency 1 none overtakes it, as with a retry. A listener without a name
// ends with the error, as with any other.
func NotNow(err error, pause time.Duration) error {
	return &notNow{cmp.Or(err, errLater), pause, false}
}

// TryAnother is a NotNow where the message alone may be at fault: the one behind it, by due
// time, is tried next, and behind the last the first. So one that is refused each time holds
// up no other, but one that is younger may overtake it. Of a broadcast it is a NotNow.
func TryAnother(err error, pause time.Duration) error {
	return &notNow{cmp.Or(err, errLater), pause, true}
}

type notNow struct {
	error
	pause   time.Duration
	another bool // than this message is tried next
}

func (n *notNow) Unwrap() error { return n.error }
