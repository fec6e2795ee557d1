package subscribers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed hold.lua
	holdSource string
	holdScript = notify.NewScript("hold", holdSource)
)

// A turn is a broadcast in hand. All but the broadcast is guarded by named.mu.
type turn struct {
	Broadcast
	queued  time.Time
	sent    time.Time // before the call that gave the lease
	receipt int64     // the end of the lease, in ms
	lost    bool
	cancel  context.CancelCauseFunc // of the handler's context, nil before
}

// member is what the broadcast is called where it is held.
func (t *turn) member() string {
	return strconv.FormatInt(int64(t.Position), 10) + " " + t.Topic
}

// hand handles broadcasts until none is queued.
func (n *named) hand(grace context.Context) {
	for {
		t := n.begin()
		if t == nil {
			return
		}
		began := time.Now()
		settled := n.handleTurn(grace, t)
		n.finish(t, time.Since(began), settled)
	}
}

// begin takes the next broadcast from the queue, nil if there is none.
func (n *named) begin() *turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		t := n.queue[0]
		n.queue = n.queue[1:]
		if !t.lost && time.Since(t.sent) < n.o.Lease {
			return t
		}
		delete(n.held, t) // somebody else may have it
		n.open--
		signal(n.changed)
	}
	n.busy--
	return nil
}

// outcome is what becomes of a broadcast in hand.
type outcome int

const (
	acknowledged outcome = iota
	givenBack
	lostTurn
)

// finish takes note of what became of a broadcast.
func (n *named) finish(t *turn, took time.Duration, o outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, t)
	n.open--
	n.mean += (max(took, time.Microsecond) - n.mean) / 8
	n.mean = max(n.mean, time.Microsecond)
	switch o {
	case acknowledged:
		n.done = append(n.done, t.member())
	case givenBack:
		n.back = append(n.back, t)
	}
	signal(n.changed)
}

// handleTurn calls the handler until it returns nil or is out of attempts, its
// lease is lost, or the listener stops.
func (n *named) handleTurn(grace context.Context, t *turn) outcome {
	for attempt := t.Attempt; ; attempt++ {
		if attempt > n.o.MaxAttempts {
			return n.giveUp(t, attempt-1, "lease expired, out of attempts")
		}
		ctx, cancel := context.WithCancelCause(grace)
		n.mu.Lock()
		t.cancel = cancel
		lost := t.lost // while it waited for this attempt
		n.mu.Unlock()
		if lost {
			cancel(nil)
			return lostTurn
		}
		b := t.Broadcast
		b.Attempt = attempt
		n.stats.handled.Add(1)
		err := n.call(ctx, &b)
		ended := context.Cause(ctx)
		cancel(nil)
		switch {
		case err == nil:
			return acknowledged
		case errors.Is(ended, notify.ErrLeaseLost):
			n.log.Warn("lease lost while handling, the broadcast may come again", "topic", t.Topic, "id", t.ID, "attempt", attempt)
			return lostTurn
		case ended != nil, errors.Is(err, ErrStopping):
			return givenBack
		case errors.Is(err, ErrBury), attempt >= n.o.MaxAttempts:
			return n.giveUp(t, attempt, err.Error())
		}
		delay := n.o.Backoff.Delay(attempt)
		var put *retryAfter
		if errors.As(err, &put) {
			delay = max(put.delay, 0)
		}
		n.log.Warn("broadcast failed", "topic", t.Topic, "id", t.ID, "attempt", attempt, "reason", err.Error(), "again_in", delay)
		if !n.waitAgain(grace, delay) {
			return givenBack
		}
	}
}

// waitAgain waits for the next attempt; false if the listener stops before.
func (n *named) waitAgain(grace context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.stopping:
		return false
	case <-grace.Done():
		return false
	}
}

// call calls the handler. A panic is an error.
func (n *named) call(ctx context.Context, b *Broadcast) (err error) {
	defer func() {
		if p := recover(); p != nil {
			n.log.Error("handler panicked", "topic", b.Topic, "id", b.ID, "attempt", b.Attempt, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return n.handler(ctx, b)
}

// giveUp acknowledges a broadcast that could not be handled.
func (n *named) giveUp(t *turn, attempts int, reason string) outcome {
	n.stats.givenUp.Add(1)
	n.log.Error("broadcast given up", "topic", t.Topic, "id", t.ID, "position", t.Position.String(), "attempts", attempts, "reason", reason)
	if n.o.OnGivenUp != nil {
		b := t.Broadcast
		b.Attempt = attempts
		n.o.OnGivenUp(&b, reason)
	}
	return acknowledged
}

// extend extends the leases that are a third over, and gives up those that ended.
func (n *named) extend(ctx context.Context) error {
	n.receipts.Lock()
	defer n.receipts.Unlock()
	keys := n.store.Keys()
	for page := range slices.Chunk(n.expiring(), MaxClaim) {
		args := []any{n.name, n.o.Lease.Milliseconds()}
		n.mu.Lock()
		for _, t := range page {
			args = append(args, t.member())
		}
		for _, t := range page {
			args = append(args, t.receipt)
		}
		n.mu.Unlock()
		sent := time.Now()
		reply, err := n.store.Run(ctx, holdScript, []string{keys.Held(n.name), keys.Handed()}, args...)
		if err != nil {
			return fmt.Errorf("extend leases: %w", err)
		}
		n.extended(page, sent, reply)
	}
	return nil
}

// extended takes note of hold.lua's reply.
func (n *named) extended(page []*turn, sent time.Time, reply []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, position := range reply[1:] {
		if i, _ := position.(int64); i >= 1 && int(i) <= len(page) {
			page[i-1].lose()
		}
	}
	deadline, _ := reply[0].(int64)
	for _, t := range page {
		if !t.lost {
			t.receipt, t.sent = deadline, sent
		}
	}
}

// expiring returns what needs its lease extended.
func (n *named) expiring() (due []*turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.held {
		switch age := time.Since(t.sent); {
		case t.lost:
		case age >= n.o.Lease:
			t.lose()
		case age >= n.o.Lease/3:
			due = append(due, t)
		}
	}
	return due
}

// lose marks a lease as lost and ends the handler's context. The mutex of the named is held.
func (t *turn) lose() {
	t.lost = true
	if t.cancel != nil {
		t.cancel(notify.ErrLeaseLost)
	}
}
