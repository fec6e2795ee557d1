package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	failuresInARow = 5 // after which an endpoint is asked by one request at a time
	leastPause     = time.Second
	mostPause      = time.Minute
	maxPutOff      = 24 * time.Hour // that an endpoint may ask for
	pausedPause    = 10 * time.Second
)

var (
	errReplaced = errors.New("its push was changed")
	errNotAsked = errors.New("the endpoint fails, or wants no request for a while")
)

// A target is a push, and what is known of its endpoint.
type target struct {
	store.Push
	*health
	endpoint string
	budget   *budget.Budget // of its endpoint
}

// share returns what each of its topics, or its name, may have in flight.
func (t *target) share() share { return share{t.InFlight, t.budget} }

// health is what is known of an endpoint, also when its push or another one was changed meanwhile.
type health struct {
	mu       sync.Mutex
	failures int           // in a row, up to failuresInARow: then it fails
	since    time.Time     // of the first of them
	pause    time.Duration // between two requests while it fails
	next     time.Time     // until which it is not asked, since it fails
	closed   time.Time     // until which it wants no request; zero: one that came later was answered
	asked    bool          // by the one request
	noted    bool          // that it fails, in Redis
	told     time.Time     // that it wants a message again at once
	gone     bool          // it said so, and its push is paused, or about to be
	storing  storing       // as is noted in Redis
	warned   bool          // that it fails, in the log; guarded by Pusher.mu
}

// newTarget returns the target of a push, which shares what is known with the one before if that had the same endpoint.
func newTarget(push store.Push, before *target, allowed *budget.Budget) *target {
	t := &target{Push: push, health: new(health), endpoint: endpointOf(&push), budget: allowed}
	if before != nil && before.Name == push.Name && before.URL == push.URL && slices.Equal(before.Secrets, push.Secrets) {
		t.health = before.health
	} else if push.Failing != nil { // as another daemon found, or this one before it was restarted
		t.failures, t.since = failuresInARow, push.Failing.Since
	}
	if before == nil || !reflect.DeepEqual(before.Push, push) { // else what is noted, or is about to be, stays so
		t.mu.Lock()
		t.noted, t.storing = push.Failing != nil, storing{}
		for subject, stream := range push.Stored {
			t.storing = storing{subject, stream}
		}
		t.mu.Unlock()
	}
	if push.Closed != nil { // as this daemon found, or another one
		t.close(push.Closed.Left)
	}
	return t
}

// close notes that an endpoint wants no request for some time, and reports whether that ends later than was known.
func (t *target) close(left time.Duration) (later bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := time.Now().Add(left)
	if later = until.Sub(t.closed) >= leastPause; later {
		t.closed = until
	}
	return later
}

// request pushes a message to a URL.
func (p *Pusher) request(ctx context.Context, d *subscribers.Delivery) error {
	t := p.target(d.Topic)
	if t == nil || t.IsNATS() {
		return subscribers.NotNow(errReplaced, leastPause)
	}
	return p.sendTo(ctx, t, *d)
}

// sendTo sends a message to the endpoint of a target, and returns what a Handler does.
func (p *Pusher) sendTo(ctx context.Context, t *target, d subscribers.Delivery) error {
	wait, only := t.enter()
	if wait > 0 {
		return subscribers.NotNow(errNotAsked, wait)
	}
	defer t.leave(only)
	if err := api.Carriable(d.Record); err != nil {
		return fmt.Errorf("cannot be pushed: %w: %w", err, subscribers.ErrBury)
	}
	if p.o.OnClaimed != nil && d.Receipt != 0 && !only { // a broadcast has none, and one that is only tried is late for its endpoint
		p.o.OnClaimed(d, d.Late())
	}
	p.underWay.Add(1)
	a, err := p.Send(ctx, &t.Push, d)
	p.underWay.Add(-1)
	switch {
	case err == nil && a.IsDone():
		p.done.Add(1)
		p.succeeded(ctx, t, only)
		return nil
	case ctx.Err() != nil: // the lease is lost, or the daemon stops
		return context.Cause(ctx)
	case err == nil:
		err = errors.New(a.String())
	case isShort(err): // of files, of which the endpoint has no fault
		return subscribers.NotNow(err, leastPause)
	}
	return p.refused(ctx, t, only, a, err)
}

// refused returns what a Handler does where an endpoint did not take a message, with its answer, which is zero if there is none, and why.
func (p *Pusher) refused(ctx context.Context, t *target, only bool, a Answer, err error) error {
	switch {
	case a.putsOff() && a.Retry >= leastPause:
		p.close(ctx, t, a)
		return p.snooze(err, a.Retry)
	case a.putsOff() && !t.isNews():
		return p.snooze(err, leastPause)
	case a.Status == http.StatusGone:
		p.pause(ctx, t, a)
		return subscribers.NotNow(err, pausedPause)
	case a.isOfMessage():
		p.failures.Add(1)
		return err
	}
	wait, fails := p.failed(ctx, t, only, err)
	switch {
	case fails:
		return subscribers.TryAnother(err, wait) // since the endpoint may refuse this message alone
	case a.putsOff(): // each time at once, it may say
		return p.snooze(err, leastPause)
	}
	return err
}

// snooze counts a message that is put off, and returns what a Handler does.
func (p *Pusher) snooze(because error, pause time.Duration) error {
	p.putOff.Add(1)
	return fmt.Errorf("%w: %w", because, subscribers.Snooze(pause))
}

// enter returns 0 if the endpoint may be asked now, or for how long it may not. Only says that this request alone asks it, since it
// fails, or was closed.
func (t *target) enter() (wait time.Duration, only bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch wait := max(time.Until(t.next), time.Until(t.closed)); {
	case t.failures < failuresInARow && t.closed.IsZero():
		return 0, false
	case wait > 0:
		return wait, false
	case t.asked: // another topic waits no shorter than it would behind a request that fails at once
		return max(t.pause, leastPause), false
	}
	t.asked = true
	return 0, true
}

// isNews notes that an endpoint wants a message again at once, and reports whether no other request was told so just now: one may have
// many.
func (t *target) isNews() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.told) < leastPause {
		return false
	}
	t.told = time.Now()
	return true
}

// isGone notes whether an endpoint is gone, and reports whether that is new.
func (t *target) isGone(gone bool) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news, t.gone = gone != t.gone, gone
	return news
}

// leave ends a request. Only then another may ask the endpoint alone.
func (t *target) leave(only bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = t.asked && !only
}

// succeeded notes that an endpoint works. One that is closed stays so, unless the request alone asked it: any other one began before.
func (p *Pusher) succeeded(ctx context.Context, t *target, only bool) {
	t.mu.Lock()
	noted, failed := t.noted, t.failures == failuresInARow
	if only {
		t.closed = time.Time{}
	}
	t.failures, t.since, t.pause, t.next, t.noted = 0, time.Time{}, 0, time.Time{}, false
	t.mu.Unlock()
	if failed && p.takeWarning(t) {
		p.o.Logger.Info("endpoint of a push works again", "push", t.Name, "endpoint", t.endpoint)
	}
	if noted {
		p.note(context.WithoutCancel(ctx), t, func(push *store.Push) { push.Failing = nil })
	}
}

// warns notes that the log is to have a warning of an endpoint that fails, and reports whether it has none yet of a push to it.
func (p *Pusher) warns(t *target) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range []map[string]*target{p.pushes, p.heard} {
		for _, other := range all {
			if other.endpoint == t.endpoint && other.warned {
				return false
			}
		}
	}
	t.warned = true
	return true
}

// takeWarning notes that a warning of an endpoint is over, and reports whether there was one of this push.
func (p *Pusher) takeWarning(t *target) (warned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	warned, t.warned = t.warned, false
	return warned
}

// failed notes a failure of an endpoint, and reports whether it fails, so that the message uses up no attempt, and for how long it is
// not asked.
func (p *Pusher) failed(ctx context.Context, t *target, only bool, err error) (wait time.Duration, fails bool) {
	p.failures.Add(1)
	t.mu.Lock()
	if t.failures == 0 {
		t.since = time.Now()
	}
	failed := t.failures == failuresInARow
	t.failures = min(t.failures+1, failuresInARow)
	fails = t.failures == failuresInARow
	tried := fails && (only || !failed)
	if tried {
		t.pause = min(max(2*t.pause, leastPause), mostPause)
		t.next = time.Now().Add(t.pause)
	}
	if only {
		t.closed = time.Time{}
	}
	note, since, next := fails && !t.noted, t.since, t.next
	t.noted = fails
	t.mu.Unlock()
	if note {
		p.noteFailure(ctx, t, since, err)
	}
	if tried {
		p.noteTry(ctx, t, time.Until(next), err)
		if p.warns(t) {
			p.o.Logger.Warn("endpoint of a push fails; it is asked by one request at a time; of other pushes to it that fail the log is silent", "push", t.Name, "endpoint", t.endpoint, "error", err)
		}
	}
	return max(time.Until(next), 0), fails
}

// noteFailure notes that an endpoint fails.
func (p *Pusher) noteFailure(ctx context.Context, t *target, since time.Time, because error) {
	failing := &store.PushFailure{Since: since.UTC().Truncate(time.Millisecond), Answer: because.Error()}
	if !p.note(ctx, t, func(push *store.Push) { push.Failing = failing }) {
		t.mu.Lock()
		t.noted = false // so the next failure notes it
		t.mu.Unlock()
	}
}

// noteTry notes what a failing endpoint answered, and when it is asked next: once a pause, of which most last a minute.
func (p *Pusher) noteTry(ctx context.Context, t *target, pause time.Duration, because error) {
	if err := p.store.Home().PushTried(ctx, t.Name, pause, because.Error()); err != nil {
		p.o.Logger.Warn("cannot note when a push is tried next", "push", t.Name, "error", err)
	}
}

// close closes an endpoint for as long as it wants, in all daemons.
func (p *Pusher) close(ctx context.Context, t *target, a Answer) {
	later := t.close(a.Retry)
	p.succeeded(ctx, t, false)
	if !later {
		return
	}
	p.o.Logger.Info("endpoint of a push wants no request for a while", "push", t.Name, "while", a.Retry, "answer", a.String())
	if err := p.store.Home().ClosePush(context.WithoutCancel(ctx), t.Name, a.Retry, a.String()); err != nil {
		p.o.Logger.Warn("cannot note that the endpoint of a push wants no request", "push", t.Name, "error", err)
	}
}

// pause pauses the push of an endpoint that is gone, which all requests under way may say.
func (p *Pusher) pause(ctx context.Context, t *target, a Answer) {
	if !t.isGone(true) {
		return
	}
	if !p.note(ctx, t, func(push *store.Push) { push.Paused = "the endpoint answered " + a.String() }) {
		t.isGone(false) // so the next one says it
		return
	}
	p.o.Logger.Warn("push paused, since its endpoint is gone", "push", t.Name, "answer", a.String())
}

// note changes the push of a target in Redis, unless it has another endpoint by now, and reports whether that did not fail.
func (p *Pusher) note(ctx context.Context, t *target, change func(*store.Push)) bool {
	p.noting.Lock() // else those of many endpoints would undo each other's reads
	defer p.noting.Unlock()
	err := p.store.Home().ChangePush(ctx, t.Name, func(push *store.Push) (*store.Push, error) {
		if push == nil || push.URL != t.URL {
			return nil, errReplaced
		}
		change(push)
		return push, nil
	})
	if err != nil && !errors.Is(err, errReplaced) {
		p.o.Logger.Warn("cannot note how the endpoint of a push is", "push", t.Name, "error", err)
		return false
	}
	return true
}
