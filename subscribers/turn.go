package subscribers

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// A turn is a broadcast in hand.
type turn struct {
	Broadcast
	receipt int64 // the end of the lease, in ms
	failed  int   // attempts that failed here; Redis learns of them when it is given back
	foreign bool  // there is nothing in it that could be handled
}

// member is what the broadcast is called where it is held.
func (t *turn) member() string {
	return strconv.FormatInt(int64(t.Position), 10) + " " + t.Topic
}

// handleTurn calls the handler until it returns nil or is out of attempts, its
// lease is lost, the way is barred, or the listener stops.
func (n *named) handleTurn(ctx context.Context, j *job[turn], t turn) bool {
	if t.foreign {
		return true
	}
	delay := time.Duration(-1) // the first attempt waits for nothing
	for t.Attempt <= n.o.MaxAttempts {
		verdict, reason, err := n.try(ctx, j, &t, func() error { return n.attempt(ctx, t.Broadcast, delay) })
		if verdict != failed {
			return verdict == done
		}
		if errors.Is(err, ErrBury) || t.Attempt == n.o.MaxAttempts {
			return n.giveUp(&t.Broadcast, reason)
		}
		delay = n.o.Backoff.after(err, t.Attempt)
		n.log.Warn("broadcast failed", "topic", t.Topic, "id", t.ID, "attempt", t.Attempt, "reason", reason, "again_in", delay)
		n.noteFailure(j)
		t.Attempt++
	}
	t.Attempt--
	return n.giveUp(&t.Broadcast, "lease expired, out of attempts")
}

// attempt waits until a broadcast is due again, and calls the handler.
func (n *named) attempt(ctx context.Context, b Broadcast, delay time.Duration) error {
	if err := n.wait(ctx, delay); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.stats.handled.Add(1)
	return n.handler(ctx, &b)
}

// wait waits for the next attempt. The error is an ErrStopping if the listener
// stops before, or that of ctx.
func (n *named) wait(ctx context.Context, delay time.Duration) error {
	if delay < 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-n.stopping:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteFailure counts an attempt that failed.
func (n *named) noteFailure(j *job[turn]) {
	n.receipts.RLock()
	defer n.receipts.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	j.work.failed++
}

// giveUp has a broadcast acknowledged that could not be handled.
func (n *named) giveUp(b *Broadcast, reason string) (done bool) {
	n.stats.givenUp.Add(1)
	n.log.Error("broadcast given up", "topic", b.Topic, "id", b.ID, "position", b.Position.String(), "attempts", b.Attempt, "reason", reason)
	if n.o.OnGivenUp != nil {
		given := *b
		n.o.OnGivenUp(&given, reason)
	}
	return true
}
