package subscribers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A turn is a broadcast that this process has leased, or a gap, whose position is its end.
type turn struct {
	*Broadcast
	gap     *store.LogGap // nil: a broadcast
	attempt int
	receipt int64 // the end of the lease, in ms
}

// member returns the name of the broadcast among the leased ones.
func (t *turn) member() string {
	if t.gap != nil {
		return t.gap.Member()
	}
	return store.LeasedMember(t.Topic, t.Position)
}

// after returns the position behind which all that the turn stands for is.
func (t *turn) after() notify.Position {
	if t.gap != nil {
		return t.gap.After
	}
	return t.Position - 1
}

// lease returns what extends and releases the broadcast.
func (t *turn) lease() store.Lease { return store.Lease{Member: t.member(), Receipt: t.receipt} }

// forHandler returns the broadcast for a function of the user, who may change it.
func (t *turn) forHandler() *Broadcast {
	b := *t.Broadcast
	b.Attempt = t.attempt
	return &b
}

// handleTurn calls the handler until it returns nil or is out of attempts, its
// lease is lost, it returns a NotNow, or the listener stops.
func (n *named) handleTurn(grace context.Context, j *job[turn], t turn) bool {
	switch {
	case t.gap != nil:
		t.attempt = min(t.attempt, n.o.MaxAttempts) // it was a broadcast before, maybe: a gap is told in any case
	case t.ID == "": // foreign, or it has expired
		return true
	}
	delay, snoozed := time.Duration(-1), 0 // the first attempt does not wait
	for t.attempt <= n.o.MaxAttempts {
		verdict, reason, err := n.try(grace, j, &t, func(ctx context.Context) error { return n.attempt(ctx, &t, delay) })
		if verdict != hasFailed {
			return verdict == isDone
		}
		if put, is := snoozeOf(err); is && snoozed < mostSnoozes {
			snoozed++
			n.putOff(j)
			if delay = put; delay < 0 {
				delay = n.o.jitter().delay(t.attempt)
			}
			continue
		}
		if errors.Is(err, ErrBury) || t.attempt == n.o.MaxAttempts {
			return n.giveUp(&t, reason)
		}
		delay = delayOf(err, n.o.jitter().delay(t.attempt))
		n.log.Warn("broadcast failed", "topic", t.Topic, "id", t.ID, "attempt", t.attempt, "reason", reason, "again_in", delay)
		t.attempt++
	}
	t.attempt--
	return n.giveUp(&t, "lease expired, out of attempts")
}

// mostSnoozes is how often a broadcast may be put off by a Snooze.
const mostSnoozes = 1000

// putOff counts the last try of a job as none.
func (n *named) putOff(j *job[turn]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	j.tries--
}

// attempt waits until a broadcast is due again, and calls the handler unless it has
// expired meanwhile.
func (n *named) attempt(ctx context.Context, t *turn, delay time.Duration) error {
	if err := n.wait(ctx, delay); err != nil {
		return err
	}
	switch {
	case t.gap != nil:
		n.missed(Gap{Topic: t.Topic, After: t.gap.After, UpTo: t.gap.UpTo}, logTrimmed, n.o.OnGap)
		return nil
	case t.Expired():
		return nil
	}
	n.stats.handled.Add(1)
	return n.handler(ctx, t.forHandler())
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

// giveUp reports a broadcast that could not be handled, and has it acknowledged.
func (n *named) giveUp(t *turn, reason string) (done bool) {
	n.stats.givenUp.Add(1)
	n.log.Error("broadcast given up", "topic", t.Topic, "id", t.ID, "position", t.Position.String(), "attempts", t.attempt, "reason", reason)
	if n.o.OnGivenUp != nil && t.gap == nil {
		n.o.OnGivenUp(t.forHandler(), reason)
	}
	return true
}

// ackTurns acknowledges broadcasts, also those whose lease was lost.
func (n *named) ackTurns(ctx context.Context, done []turn) ([]turn, error) {
	for page := range slices.Chunk(done, record.MaxClaim) {
		if err := n.settle(ctx, page, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// releaseTurns releases broadcasts, which rings the processes of the name.
func (n *named) releaseTurns(ctx context.Context, back []*job[turn], _ bool) error {
	for page := range slices.Chunk(back, record.MaxClaim) {
		if err := n.settle(ctx, nil, page); err != nil {
			return err
		}
	}
	return nil
}

// settle acknowledges broadcasts, and releases others.
func (n *named) settle(ctx context.Context, done []turn, back []*job[turn]) error {
	at := n.at.Load()
	got, err := n.take(ctx, at, 0, nil, done, back)
	if err == nil && got.Gone {
		n.noteUnregistered(at, back)
	}
	return err
}

// noteUnregistered notes that a registration is gone, and which broadcasts were released
// in vain: no process gets them, so that a gap has to begin before them.
func (n *named) noteUnregistered(at *registration, back []*job[turn]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at.Load() != at {
		return
	}
	n.unregistered = true
	for _, j := range back {
		n.lostAfter = min(n.lostAfter, j.work.after())
	}
}

// extendTurns extends the leases of broadcasts.
func (n *named) extendTurns(ctx context.Context, all []turn, lease time.Duration) (extension[turn], error) {
	leases := make([]store.Lease, len(all))
	for i := range all {
		leases[i] = all[i].lease()
	}
	until, lost, err := n.shard().Hold(ctx, n.name, n.Listener.o.Name, leases, lease)
	if err != nil {
		return extension[turn]{}, fmt.Errorf("extend leases: %w", err)
	}
	return extension[turn]{renew: func(_ int, t *turn) { t.receipt = until }, lost: lost}, nil
}

// take claims up to free broadcasts under a registration, acknowledges some and releases some.
func (n *named) take(ctx context.Context, at *registration, free int, topics []string, done []turn, back []*job[turn]) (store.TakeResult, error) {
	asked := store.Take{Name: n.name, Registration: at.Text, Worker: n.Listener.o.Name, Lease: n.o.Lease, Max: free, Topics: topics}
	for i := range done {
		asked.Acked = append(asked.Acked, done[i].member())
	}
	for _, j := range back {
		asked.Back = append(asked.Back, store.Unhandled{Lease: j.work.lease(), Failed: max(j.tries-1, 0)})
	}
	got, err := n.shard().Take(ctx, asked)
	if err != nil {
		return store.TakeResult{}, fmt.Errorf("take broadcasts as %s: %w", n.name, err)
	}
	return got, nil
}

// turnsOf returns what came of a claim that was made at a time: gaps first, since they are before the
// new broadcasts of their topics. A foreign broadcast, and one that has expired, has no ID.
func (n *named) turnsOf(got store.TakeResult, asked time.Time) []turn {
	now := instant{time.UnixMilli(got.Until).Add(-n.o.Lease.Truncate(time.Millisecond)), asked}
	turns := make([]turn, 0, len(got.Gaps)+len(got.Broadcasts))
	for i := range got.Gaps {
		gap := &got.Gaps[i]
		b := &Broadcast{Topic: gap.Topic, Position: gap.UpTo}
		turns = append(turns, turn{Broadcast: b, gap: gap, attempt: gap.Attempt, receipt: got.Until})
	}
	for _, one := range got.Broadcasts {
		b := n.member.hub.itemOf(one.Topic, one.Entry, now).broadcast
		if b == nil {
			b = &Broadcast{Topic: one.Topic, Position: one.Position}
		}
		turns = append(turns, turn{Broadcast: b, attempt: one.Attempt, receipt: got.Until})
	}
	return turns
}
