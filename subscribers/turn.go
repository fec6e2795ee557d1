package subscribers

import (
	"context"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// A turn is a broadcast in hand.
type turn struct {
	*Broadcast
	attempt int
	receipt int64 // the end of the lease, in ms
}

// member is what the broadcast is called where it is held.
func (t *turn) member() string {
	return store.HeldMember(t.Topic, t.Position)
}

// lease returns what extends the broadcast, and gives it back.
func (t *turn) lease() store.Lease { return store.Lease{Member: t.member(), Receipt: t.receipt} }

// handleTurn calls the handler until it returns nil or is out of attempts, its
// lease is lost, the way is barred, or the listener stops.
func (n *named) handleTurn(grace context.Context, j *job[turn], t turn) bool {
	if t.ID == "" { // foreign
		return true
	}
	delay := time.Duration(-1) // the first attempt waits for nothing
	for t.attempt <= n.o.MaxAttempts {
		verdict, reason, err := n.try(grace, j, &t, func(ctx context.Context) error { return n.attempt(ctx, &t, delay) })
		if verdict != hasFailed {
			return verdict == isDone
		}
		if errors.Is(err, ErrBury) || t.attempt == n.o.MaxAttempts {
			return n.giveUp(&t, reason)
		}
		delay = delayOf(err, n.o.Backoff.delay(t.attempt))
		n.log.Warn("broadcast failed", "topic", t.Topic, "id", t.ID, "attempt", t.attempt, "reason", reason, "again_in", delay)
		t.attempt++
	}
	t.attempt--
	return n.giveUp(&t, "lease expired, out of attempts")
}

// attempt waits until a broadcast is due again, and calls the handler.
func (n *named) attempt(ctx context.Context, t *turn, delay time.Duration) error {
	if err := n.wait(ctx, delay); err != nil {
		return err
	}
	n.stats.handled.Add(1)
	return n.handler(ctx, t.forHandler())
}

// forHandler returns the broadcast for a function of the user, who may change it.
func (t *turn) forHandler() *Broadcast {
	b := *t.Broadcast
	b.Attempt = t.attempt
	return &b
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

// giveUp has a broadcast acknowledged that could not be handled.
func (n *named) giveUp(t *turn, reason string) (done bool) {
	n.stats.givenUp.Add(1)
	n.log.Error("broadcast given up", "topic", t.Topic, "id", t.ID, "position", t.Position.String(), "attempts", t.attempt, "reason", reason)
	if n.o.OnGivenUp != nil {
		n.o.OnGivenUp(t.forHandler(), reason)
	}
	return true
}
