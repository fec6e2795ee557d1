package carrier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// standBy waits until this carrier is elected. Before, it waits for a pause. It returns nil
// if ctx ended, and an error only if Redis is unfit.
func (m *mover) standBy(ctx context.Context, pause time.Duration) (*term, error) {
	var subscription sync.WaitGroup
	defer subscription.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	vacant := make(chan string, 1)
	retry := m.retryStanding()
	m.setRole(0)
	wait(ctx, pause)
	for heard := false; ctx.Err() == nil; {
		m.loop.Note()
		_, changed := m.shares.now()
		answered := retry.After(reach.Patience, "error", m.shard.Store().NoAnswer())
		t, left, err := m.elect(ctx)
		answered()
		if errors.Is(err, notify.ErrUnfit) {
			return nil, err
		}
		if retry.Wait(ctx, err); err != nil {
			continue
		}
		if t != nil {
			return t, nil
		}
		if !heard { // a lone carrier never needs this subscription
			heard = true
			defer m.withdraw(ctx)
			subscription.Go(func() {
				m.redis.vacant(ctx, func(e store.Event) {
					m.noteBeat(e)
					vacancy(e, vacant)
				})
			})
			m.log.Info("standing by", "carrier", m.o.Name)
		}
		m.await(ctx, left, vacant, changed)
	}
	return nil, nil
}

// await waits until it is time to stand for election again: another carrier's lease may
// have ended, or that gave it up, or others are to know how many shards this Carrier carries.
func (m *mover) await(ctx context.Context, left time.Duration, vacant <-chan string, changed <-chan struct{}) {
	left = min(left, max(pollPause, m.shard.Store().Beat()))
	until := time.Now().Add(m.shares.until(left))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case heir := <-vacant:
			if heir == m.o.Name {
				return
			}
			until = time.Now().Add(m.shares.after(heir))
		case <-changed:
			changed = nil
			until = earlier(until, time.Now().Add(rand.N(lookAgain)))
		case <-timer.C:
			return
		}
		timer.Reset(time.Until(until))
	}
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// retryStanding returns the pause between attempts to stand for election that failed.
func (m *mover) retryStanding() *outage.Retry {
	return outage.NewRetry(m.log, "cannot stand for election; retrying", "standing for election again")
}

// vacancy passes on that there may be no elected carrier, with the name of the one that is
// to be it, or nothing.
func vacancy(e store.Event, vacant chan<- string) {
	if e.Kind != reach.Received && e.Kind != reach.Subscribed {
		return
	}
	select {
	case vacant <- e.Payload:
	default:
	}
}

// elect stands for election once. It returns the term that was won, or how long the
// lease of the elected carrier lasts.
func (m *mover) elect(ctx context.Context) (*term, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	carries, _ := m.shares.now()
	e, err := m.redis.elect(ctx, m.o.Name, m.o.Lease, carries)
	if err != nil || !e.Won {
		return nil, e.Left, err
	}
	return newTerm(m, e), 0, nil
}

// resign gives up the lease so that a standby takes over at once.
func (m *mover) resign(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.ResignWait)
	defer cancel()
	before := 0
	if t.heir == "" {
		before = m.shares.giveUp()
	}
	if _, err := m.redis.resign(ctx, t.token, t.heir, before); err != nil {
		m.log.Warn("cannot give up the lease; it runs out by itself", "error", err, "lease", m.o.Lease)
		return
	}
	if t.heir != "" {
		m.log.Info("stepped down for one that carries fewer shards", "carrier", m.o.Name, "epoch", t.epoch, "to", t.heir)
		return
	}
	m.log.Info("stepped down", "carrier", m.o.Name, "epoch", t.epoch)
}

// withdraw has nothing handed over to this carrier any more if ctx ended: it stops. If that
// fails a shard that is, within some seconds, waits for others a little longer.
func (m *mover) withdraw(ctx context.Context) {
	if ctx.Err() == nil || m.shares.shards == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.ResignWait)
	defer cancel()
	_ = m.redis.withdraw(ctx, m.o.Name)
}

// Status describes the elected carrier of a shard.
type Status struct {
	Name  string        // empty: none is elected
	Epoch int64         // number of the election
	Since time.Time     // of the election, by Redis's clock
	Lease time.Duration // time that is left of the lease
	Whole time.Duration // time to which it renews the lease, several times a lease; more is left only if Redis's clock was set back
	Next  time.Time     // when the next scheduled message or broadcast is due; zero: nothing is scheduled
}

// Look returns the elected carrier of a shard, if there is one, and when the next thing is
// due. The error is that of the connection.
func Look(ctx context.Context, shard store.Shard) (Status, error) {
	s, err := shard.Carrier(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("look for the carrier: %w", err)
	}
	return Status(s), nil
}

// Standbys returns how many carriers of a shard stand by, to take over from the elected
// one. The error is that of the connection.
func Standbys(ctx context.Context, shard store.Shard) (int64, error) {
	n, err := shard.Standbys(ctx)
	if err != nil {
		return 0, fmt.Errorf("count standbys: %w", err)
	}
	return n, nil
}
