package carrier

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
)

var (
	//go:embed elect.lua
	electSource string
	electScript = notify.NewScript("elect", electSource)

	//go:embed resign.lua
	resignSource string
	resignScript = notify.NewScript("resign", resignSource)
)

const (
	electJitter   = 50 * time.Millisecond // spreads the looks of standbys
	resignTimeout = time.Second
)

// standBy waits until this carrier is elected. It returns nil when ctx ended,
// and an error only for a Redis that is unfit.
func (c *Carrier) standBy(ctx context.Context) (*term, error) {
	var hearing sync.WaitGroup
	defer hearing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	vacant := make(chan struct{}, 1)
	var pause backoff.Pause
	var quiet bool // the fault is logged already
	c.stands(0)
	for heard := false; ctx.Err() == nil; {
		c.around()
		t, left, err := c.elect(ctx)
		switch {
		case errors.Is(err, notify.ErrUnfit):
			return nil, err
		case err != nil:
			if !quiet && ctx.Err() == nil {
				c.o.Logger.Error("cannot stand for election, trying on", "error", err)
				quiet = true
			}
			pause.Wait(ctx)
			continue
		case t != nil:
			return t, nil
		}
		pause.Reset()
		quiet = false
		if !heard { // a lone carrier never needs this connection
			heard = true
			hearing.Go(func() {
				c.store.Hear(ctx, func(e notify.Event) {
					c.hears(e)
					vacancy(e, vacant)
				}, c.store.Keys().Vacant())
			})
			c.o.Logger.Info("standing by", "carrier", c.o.Name)
		}
		select {
		case <-ctx.Done():
		case <-vacant:
		case <-time.After(min(left, lookPause) + rand.N(electJitter)):
		}
	}
	return nil, nil
}

// vacancy passes on that the carrier's place may be vacant.
func vacancy(e notify.Event, vacant chan<- struct{}) {
	if e.Kind != notify.Heard && e.Kind != notify.Subscribed {
		return
	}
	select {
	case vacant <- struct{}{}:
	default:
	}
}

// elect stands for election once. It returns the term that was won, or for how
// long the lease of who carries lasts.
func (c *Carrier) elect(ctx context.Context) (*term, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := c.store.Keys()
	reply, err := c.store.Run(ctx, electScript, []string{keys.Carrier(), keys.Epoch()}, c.o.Name, c.o.Lease.Milliseconds(), MaxLease.Milliseconds())
	if err != nil {
		return nil, 0, err
	}
	number, _ := reply[2].(int64)
	if won, _ := reply[0].(int64); won == 0 {
		return nil, time.Duration(number) * time.Millisecond, nil
	}
	token, _ := reply[1].(string)
	return newTerm(c, token, number), 0, nil
}

// resign gives up the lease so that a standby takes over at once.
func (c *Carrier) resign(ctx context.Context, t *term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	keys := c.store.Keys()
	if _, err := c.store.Run(ctx, resignScript, []string{keys.Carrier()}, t.token, keys.Vacant()); err != nil {
		c.o.Logger.Warn("cannot give up the lease, it runs out by itself", "error", err, "lease", c.o.Lease)
		return
	}
	c.o.Logger.Info("stepped down", "carrier", c.o.Name, "epoch", t.epoch)
}

// Status is who carries.
type Status struct {
	Name  string        // empty: nobody is elected
	Epoch int64         // number of this election
	Since time.Time     // of the election, by Redis's clock
	Lease time.Duration // what is left of it
	Whole time.Duration // what it is renewed to, several times a lease: more is left only where Redis's clock was set back
	Next  time.Time     // when the next scheduled message or broadcast is due; zero: nothing is scheduled
}

// Look asks who carries. The error is that of the connection.
func Look(ctx context.Context, store *notify.Store) (Status, error) {
	if err := store.CheckFormat(ctx); err != nil {
		return Status{}, fmt.Errorf("look for the carrier: %w", err)
	}
	keys := store.Keys()
	pipe := store.Client().Pipeline()
	token := pipe.Get(ctx, keys.Carrier())
	left := pipe.PTTL(ctx, keys.Carrier())
	heads := []*redis.ZSliceCmd{
		pipe.ZRangeWithScores(ctx, keys.Schedules(), 0, 0),
		pipe.ZRangeWithScores(ctx, keys.Broadcasts(), 0, 0),
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Status{}, fmt.Errorf("look for the carrier: redis at %s: %w", store.Where(), err)
	}
	var s Status
	for _, head := range heads {
		if next := head.Val(); len(next) > 0 {
			due := timeOf(int64(next[0].Score))
			if s.Next.IsZero() || !due.IsZero() && due.Before(s.Next) {
				s.Next = due
			}
		}
	}
	if token.Val() == "" {
		return s, nil
	}
	s.Lease = left.Val()
	s.readToken(token.Val())
	return s, nil
}

// Standbys returns how many carriers stand by, to take over from the elected
// one. The error is that of the connection.
func Standbys(ctx context.Context, store *notify.Store) (int64, error) {
	channel := store.Keys().Vacant() // which nobody else listens to
	listening, err := store.Listening(ctx, channel)
	if err != nil {
		return 0, fmt.Errorf("count standbys: %w", err)
	}
	return listening[channel], nil
}

// readToken reads what the token of an elected carrier tells: EPOCH SINCE LEASE
// NAME, as elect.lua writes it. Of a foreign one, all is its name.
func (s *Status) readToken(token string) {
	fields := strings.SplitN(token, " ", 4)
	if len(fields) < 4 {
		s.Name = token
		return
	}
	s.Epoch, _ = strconv.ParseInt(fields[0], 10, 64)
	if since, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
		s.Since = timeOf(since)
	}
	if lease, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
		s.Whole = min(max(time.Duration(lease), 0), MaxLease/time.Millisecond) * time.Millisecond
	}
	s.Name = fields[3]
}

// timeOf returns a time in milliseconds; zero where it is foreign, and beyond all times.
func timeOf(ms int64) time.Time {
	if ms < 0 || ms > notify.MaxDue.UnixMilli() {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
