package reach

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// switched is the channel on which a Sentinel announces a new master.
const switched = "+switch-master"

// sentinelSilence is how long a Sentinel may announce nothing before it is asked.
const sentinelSilence = 30 * time.Second

// sentinels watch for a new master. go-redis moves its pool when there is one, but
// not its subscriptions: one to a former master that still runs stays there and
// receives nothing. So while the store has subscriptions, sentinels subscribes to
// every Sentinel; at each announcement it closes the connections to the former
// master. It needs every Sentinel's, since a new connection may ask the one that
// learns of it last.
type sentinels struct {
	master      string // its name
	options     []*redis.Options
	connections *connections

	mu    sync.Mutex
	users int    // subscriptions of the store
	stop  func() // set while there are users
}

// watch watches for a subscription until done is called.
func (s *sentinels) watch() (done func()) {
	if len(s.options) == 0 {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users == 1 {
		s.start()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users--; s.users == 0 {
			s.stop()
		}
	}
}

// start follows each sentinel. The caller holds the mutex.
func (s *sentinels) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, o := range s.options {
		all.Go(func() {
			var known string
			var pause backoff.Pause
			for ctx.Err() == nil {
				s.follow(ctx, o, &known, &pause)
				pause.Wait(ctx)
			}
		})
	}
	s.stop = func() {
		cancel()
		all.Wait()
	}
}

// follow subscribes to one sentinel until the connection fails. known is the
// address of the master that the sentinel named last.
func (s *sentinels) follow(ctx context.Context, o *redis.Options, known *string, pause *backoff.Pause) {
	options := *o // go-redis fills in defaults
	sentinel := redis.NewSentinelClient(&options)
	defer sentinel.Close()
	sub := sentinel.Subscribe(ctx, switched)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for {
		_, err := sub.ReceiveTimeout(ctx, sentinelSilence)
		var quiet net.Error
		if err != nil && (!errors.As(err, &quiet) || !quiet.Timeout()) {
			return
		}
		address, err := sentinel.GetMasterAddrByName(ctx, s.master).Result()
		if err != nil || len(address) != 2 {
			return
		}
		pause.Reset()
		if now := net.JoinHostPort(address[0], address[1]); now != *known {
			if *known != "" {
				s.connections.abandon(*known, time.Now())
			}
			*known = now
		}
	}
}
