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
	confirmWithin = 5 * time.Second // before they are sent again
	moveWithin    = 2 * time.Second // one try to keep the place

	everything = ">" // the topics that are bridged
)

// bridge passes on broadcasts until ctx ends. One is passed on for good when
// NATS has confirmed it and the place in the log is moved on: what is not is sent
// again.
func (g *Gate) bridge(ctx context.Context) {
	retry := outage.NewRetry(g.o.Logger, "cannot pass on broadcasts to nats; retrying", "passing on broadcasts to nats again")
	for ctx.Err() == nil {
		err := g.bridgeOn(ctx, func() { retry.Wait(ctx, nil) })
		if err != nil {
			retry.Wait(ctx, err)
		}
	}
}

// bridgeOn goes on where it was left by whoever bridged before, until ctx ends;
// an error is that of Redis, which comes before anything is sent.
func (g *Gate) bridgeOn(ctx context.Context, began func()) error {
	from, err := g.bridged(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	out := newOutbox()
	sending.Go(func() { g.sendBroadcasts(ctx, out) })
	return g.listener.Listen(ctx, everything, func(ctx context.Context, b *subscribers.Broadcast) error {
		out.put(ctx, b)
		return nil
	}, subscribers.ListenOptions{
		From: from,
		OnStart: func(at notify.Position) {
			began()
			g.bridging.Store(true)
			g.moveOn(ctx, max(at, 1)) // so that who comes next begins there, too, and not later; 0 would be no place
		},
		OnGap: func(gap subscribers.Gap) {
			g.count.gaps.Add(1)
			if gap.Topic == everything { // Redis lost all that it held, and the place with it
				g.moveOn(ctx, gap.UpTo)
			}
		},
	})
}

// bridged returns where to go on. Where a gate has bridged before and its place
// is gone, Redis lost all that it held: all that it holds since is new, and what
// was lost is a gap.
func (g *Gate) bridged(ctx context.Context) (subscribers.From, error) {
	at, err := g.bridgeTo(ctx, 0)
	switch {
	case err != nil:
		return subscribers.From{}, err
	case at > 0:
		return subscribers.After(at), nil
	case !g.bridging.Load():
		return subscribers.FromNow(), nil
	}
	g.count.gaps.Add(1)
	return subscribers.FromBeginning(), nil
}

// moveOn keeps in mind up to where broadcasts were passed on. It tries until
// that is done, and once more when ctx has ended: who forgets it sends them twice.
func (g *Gate) moveOn(ctx context.Context, to notify.Position) {
	retry := outage.NewRetry(g.o.Logger, "cannot keep the place of the bridge to nats; retrying", "the place of the bridge to nats is kept again")
	for {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveWithin)
		_, err := g.bridgeTo(once, to)
		cancel()
		if err != nil && ctx.Err() != nil {
			return
		}
		if retry.Wait(ctx, err); err == nil {
			return
		}
	}
}

// bridgeTo moves the place in the log on, and returns it; 0 asks for it.
func (g *Gate) bridgeTo(ctx context.Context, to notify.Position) (notify.Position, error) {
	at, err := g.store.Only().BridgeTo(ctx, to)
	if err != nil {
		return 0, fmt.Errorf("place of the bridge to nats: %w", err)
	}
	return at, nil
}

// outgoing is a broadcast as it is sent.
type outgoing struct {
	*nats.Msg
	at notify.Position
}

// sendBroadcasts sends what comes, a batch at a time, until ctx ends.
func (g *Gate) sendBroadcasts(ctx context.Context, out *outbox) {
	g.prepareStream(ctx)
	careful := false
	for {
		taken := out.take(ctx)
		if len(taken) == 0 {
			return // ctx ended
		}
		batch := make([]outgoing, len(taken))
		for i, b := range taken {
			batch[i] = g.outgoing(b)
		}
		careful = g.passOn(ctx, batch, careful)
	}
}

// passOn sends a batch until NATS has confirmed it all, or ctx ends, and moves
// the place on behind what is confirmed. After a refusal it is careful and sends
// one broadcast at a time, so that none overtakes one that was refused, until a
// whole batch went well. It reports whether to be so with the next one.
func (g *Gate) passOn(ctx context.Context, batch []outgoing, careful bool) (refused bool) {
	var pause backoff.Pause
	var moved notify.Position
	for left := batch; len(left) > 0 && ctx.Err() == nil; {
		l := g.await(ctx)
		if l == nil {
			break
		}
		now := len(left)
		if careful || refused {
			now = 1
		}
		again, err := g.confirm(ctx, l, left[:now:now])
		left = append(again, left[now:]...)
		if at := passedOn(batch, left); at > moved {
			g.moveOn(ctx, at)
			moved = at
		}
		switch {
		case ctx.Err() != nil:
			return refused
		case len(again) == 0:
			pause.Reset()
			g.told.fine(cannotConfirm)
			continue
		case !l.lost(): // which is told, and refuses nothing
			refused = true
			g.refused(err, again[0].Subject)
		}
		g.count.resent.Add(int64(len(again)))
		pause.Wait(ctx)
	}
	return refused
}

// passedOn returns up to where a batch is passed on, of which some are left; 0: all.
func passedOn(batch, left []outgoing) notify.Position {
	if len(left) == 0 {
		return batch[len(batch)-1].at
	}
	first, _ := slices.BinarySearchFunc(batch, left[0].at, func(o outgoing, at notify.Position) int { return cmp.Compare(o.at, at) })
	if first == 0 {
		return 0
	}
	return batch[first-1].at
}

// cannotConfirm is how it is told that broadcasts wait.
const cannotConfirm = "nats does not take broadcasts, they wait"

// refused tells, once, that NATS refuses broadcasts.
func (g *Gate) refused(err error, subject string) {
	g.count.refusals.Add(1)
	g.told.once(cannotConfirm, err, subject)
}

// confirm sends messages and returns, in their order, those that are to be sent
// again, and why.
func (g *Gate) confirm(ctx context.Context, l *line, messages []outgoing) (again []outgoing, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	if g.o.JetStream != "" {
		return g.keep(ctx, l, messages)
	}
	var sent []outgoing
	for i, m := range messages {
		err := l.conn.PublishMsg(m.Msg)
		switch {
		case errors.Is(err, nats.ErrMaxPayload):
			g.tooLarge(m, err)
		case err != nil:
			return append(sent, messages[i:]...), err
		default:
			sent = append(sent, m)
		}
	}
	if err := l.conn.FlushWithContext(ctx); err != nil {
		return sent, err
	}
	g.count.broadcasts.Add(int64(len(sent)))
	return nil, nil
}

// tooLarge tells of a broadcast that NATS can never carry.
func (g *Gate) tooLarge(m outgoing, err error) {
	g.count.tooLargeBroadcasts.Add(1)
	g.o.Logger.Error("broadcast is too large for nats, it is passed over", "subject", m.Subject,
		"id", m.Header.Get("ce-id"), "bytes", wireSize(m.Msg), "error", err)
}

// outgoing returns a broadcast as it is sent.
func (g *Gate) outgoing(b *subscribers.Broadcast) outgoing {
	h := eventHeader(g.source(), b.Topic, b.ID, b.Due, b.Record)
	h.Set("Bellhop-Position", b.Position.String())
	// An id may be used again, and that is another broadcast; a position is not.
	h.Set(nats.MsgIdHdr, g.store.Prefix()+":"+b.Position.String())
	return outgoing{&nats.Msg{Subject: g.o.Prefix + ".broadcast." + b.Topic, Header: h, Data: b.Body}, b.Position}
}
