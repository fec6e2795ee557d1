package natsgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	moveWithin = 8 * time.Second // one call to keep the position
	lastMove   = 2 * time.Second // one at the end
	everything = ">"             // the pattern of the bridged topics
)

// bridge sends the broadcasts of the shard to NATS until ctx ends. A broadcast is sent again until
// NATS has confirmed it and the bridge's position in the log is behind it.
func (t *term) bridge(ctx context.Context) {
	defer t.unconfirmed.Forget(t.number())
	retry := outage.NewRetry(t.o.Logger, "cannot pass on broadcasts to nats; retrying", "passing on broadcasts to nats again")
	for ctx.Err() == nil {
		err := t.bridgeOnce(ctx, func() { retry.Wait(ctx, nil) })
		if err != nil {
			retry.Wait(ctx, err)
		}
	}
}

// bridgeOnce continues at the kept position until ctx ends. An error is that of
// reading the position from Redis, before anything is sent.
func (t *term) bridgeOnce(ctx context.Context, began func()) error {
	from, err := t.bridgeStart(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	out := newBacklog()
	sending.Go(func() { t.sendBroadcasts(ctx, out) })
	return t.listener.Listen(ctx, everything, func(ctx context.Context, b *subscribers.Broadcast) error {
		out.put(ctx, b)
		return nil
	}, subscribers.ListenOptions{
		From:  from,
		Shard: &t.Shard,
		OnStart: func(at subscribers.Bookmark) {
			began()
			t.bridged.Store(t.number(), true)
			t.keepPosition(ctx, at.Position()) // so that the next bridge starts here, not later
		},
		OnGap: func(gap subscribers.Gap) {
			t.count.gaps.Add(1)
			if gap.Topic == everything { // Redis lost all its data, and the position with it
				t.keepPosition(ctx, gap.UpTo)
			}
		},
	})
}

// bridgeStart returns where to start: if nothing was bridged yet, with what this term has sent. If this gateway has bridged before and its
// position is gone, Redis lost all its data: whatever the log holds now is new, and
// the lost broadcasts are a gap.
func (t *term) bridgeStart(ctx context.Context) (subscribers.From, error) {
	at, err := t.movePosition(ctx, 0)
	_, bridged := t.bridged.Load(t.number())
	switch {
	case err != nil:
		return subscribers.From{}, err
	case at > 0:
		return subscribers.FromTime((at + 1).Time()), nil // no bookmark: the position is no older than the store, in which it is
	case !bridged:
		_, err = t.movePosition(ctx, max(t.Sent, 1)) // before it listens: the term may end first
		return subscribers.FromTime((t.Sent + 1).Time()), err
	}
	t.count.gaps.Add(1)
	return subscribers.FromBeginning(), nil
}

// keepPosition stores up to where broadcasts were passed on, also if there were none. It
// retries until it succeeds, and once more after ctx has ended: without the position they
// are sent twice.
func (t *term) keepPosition(ctx context.Context, to notify.Position) {
	retry := outage.NewRetry(t.o.Logger, "cannot keep the position of the bridge to nats; retrying", "keeping the position of the bridge to nats again")
	for {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveWithin)
		hurried := context.AfterFunc(ctx, func() { time.AfterFunc(lastMove, cancel) })
		_, err := t.movePosition(once, max(to, 1)) // 0 would be no position
		hurried()
		cancel()
		if err != nil && ctx.Err() != nil {
			return
		}
		if retry.Wait(ctx, err); err == nil {
			return
		}
	}
}

// movePosition advances the position in the log, and returns it; 0 only reads it.
func (t *term) movePosition(ctx context.Context, to notify.Position) (notify.Position, error) {
	at, err := t.Shard.BridgeTo(ctx, to)
	if err != nil {
		return 0, fmt.Errorf("position of the bridge to nats: %w", err)
	}
	return at, nil
}

// sendBroadcasts sends the broadcasts of a backlog, a batch at a time, until ctx ends.
func (t *term) sendBroadcasts(ctx context.Context, out *backlog) {
	t.prepareStream(ctx)
	careful := false
	for {
		taken := out.take(ctx)
		if len(taken) == 0 {
			return // ctx ended
		}
		batch := make([]outgoing, len(taken))
		for i, b := range taken {
			batch[i] = t.outgoing(b)
		}
		careful = t.passOn(ctx, batch, careful)
	}
}

// passOn sends a batch until NATS has confirmed all of it, or ctx ends, and moves
// the position behind the confirmed broadcasts, and those that expired meanwhile. After a refusal it is careful: until
// a whole batch is accepted it sends one broadcast at a time, so that none overtakes
// a refused one; to some streams it always does. It reports whether to be careful with the next batch.
func (t *term) passOn(ctx context.Context, batch []outgoing, careful bool) (refused bool) {
	var pause backoff.Pause
	var moved notify.Position
	for left := batch; len(left) > 0 && ctx.Err() == nil; {
		c := t.await(ctx)
		if c == nil {
			break
		}
		left = unexpired(left)
		now := len(left)
		if careful || refused || !t.takesMany(c) {
			now = min(now, 1)
		}
		again, err := t.confirm(ctx, c, left[:now:now])
		left = append(again, left[now:]...)
		if at := confirmedUpTo(batch, left); at > moved {
			t.keepPosition(ctx, at)
			moved = at
		}
		switch {
		case ctx.Err() != nil:
			return refused
		case len(again) == 0:
			pause.Reset()
			if now > 0 { // else all that was left has expired
				t.unconfirmed.End(t.number())
			}
			continue
		case !c.lost(): // a loss is logged elsewhere, and is no refusal
			refused = true
			t.refused(err, again[0].Subject)
		}
		t.count.resent.Add(int64(len(again)))
		pause.Wait(ctx)
	}
	return refused
}

// confirmedUpTo returns the position up to which a batch is confirmed or has expired, of which some are left; 0: nothing is.
func confirmedUpTo(batch, left []outgoing) notify.Position {
	if len(left) == 0 {
		return batch[len(batch)-1].of.Position
	}
	first, _ := slices.BinarySearchFunc(batch, left[0].of.Position, func(o outgoing, at notify.Position) int { return cmp.Compare(o.of.Position, at) })
	if first == 0 {
		return 0
	}
	return batch[first-1].of.Position
}

// confirm sends messages and returns, in order, the unconfirmed ones, which are
// to be sent again, and why.
func (t *term) confirm(ctx context.Context, c *connection, messages []outgoing) (again []outgoing, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	if t.o.JetStream != "" {
		return t.keep(ctx, c, messages)
	}
	var sent []outgoing
	for i, m := range messages {
		err := c.nc.PublishMsg(m.Msg)
		switch {
		case errors.Is(err, nats.ErrMaxPayload):
			t.tooLarge(m, err)
		case err != nil:
			return append(sent, messages[i:]...), err
		default:
			sent = append(sent, m)
		}
	}
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return sent, err
	}
	t.count.broadcasts.Add(int64(len(sent)))
	return nil, nil
}
