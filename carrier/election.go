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
)

const (
	electJitter   = 50 * time.Millisecond // spreads the attempts of standbys
	resignTimeout = time.Second
)

// standBy waits until this carrier is elected. It returns nil if ctx ended, and an
// error only if Redis is unfit.
func (m *mover) standBy(ctx context.Context) (*term, error) {
	var subscription sync.WaitGroup
	defer subscription.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	vacant := make(chan struct{}, 1)
	retry := m.retryStanding()
	m.setRole(0)
	for heard := false; ctx.Err() == nil; {
		m.loop.Note()
		answered := retry.After(store.Patience, "error", m.shard.Store().NoAnswer())
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
			subscription.Go(func() {
				m.shard.Store().Subscribe(ctx, func(e store.Event) {
					m.noteBeat(e)
					vacancy(e, vacant)
				}, m.shard.VacantChannel())
			})
			m.o.Logger.Info("standing by", "carrier", m.o.Name)
		}
		select {
		case <-ctx.Done():
		case <-vacant:
		case <-time.After(min(left, pollPause) + rand.N(electJitter)):
		}
	}
	return nil, nil
}

// retryStanding returns the pause between attempts to stand for election that failed.
func (m *mover) retryStanding() *outage.Retry {
	return outage.NewRetry(m.o.Logger, "cannot stand for election; retrying", "standing for election again")
}

// vacancy signals that there may be no elected carrier.
func vacancy(e store.Event, vacant chan<- struct{}) {
	if e.Kind != store.Received && e.Kind != store.Subscribed {
		return
	}
	select {
	case vacant <- struct{}{}:
	default:
	}
}

// elect stands for election once. It returns the term that was won, or how long the
// lease of the elected carrier lasts.
func (m *mover) elect(ctx context.Context) (*term, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := m.shard.Elect(ctx, m.o.Name, m.o.Lease)
	if err != nil || !e.Won {
		return nil, e.Left, err
	}
	return newTerm(m, e.Token, e.Epoch), 0, nil
}

// resign gives up the lease so that a standby takes over at once.
func (m *mover) resign(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if _, err := m.shard.Resign(ctx, t.token); err != nil {
		m.o.Logger.Warn("cannot give up the lease; it runs out by itself", "error", err, "lease", m.o.Lease)
		return
	}
	m.o.Logger.Info("stepped down", "carrier", m.o.Name, "epoch", t.epoch)
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
