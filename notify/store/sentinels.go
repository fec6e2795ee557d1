package store

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// switched is the channel of a Sentinel that tells of a new master.
const switched = "+switch-master"

// sentinelSilence is after how long without news a Sentinel is asked again.
const sentinelSilence = 30 * time.Second

// sentinels watch a master. go-redis moves its pool when there is a new one, but
// no connection that listens: that of a master which was replaced and lives on
// stays there, and hears nothing. So while somebody listens, all sentinels are
// listened to, and each that tells of a new master has the connections to the one
// before closed. It takes all of them: who connects anew may ask the last to know.
type sentinels struct {
	master  string // its name
	options []*redis.Options
	lines   *lines

	mu    sync.Mutex
	users int
	stop  func() // while there are users
}

// SentinelsRefuse reports whether err says that no sentinel lets itself be asked
// for the master: their password is another one than Redis's.
func SentinelsRefuse(err error) bool {
	return err != nil && strings.Contains(err.Error(), sentinelsFail) && refusal(err, []string{"NOAUTH", "WRONGPASS", "NOPERM"})
}

// sentinelsFail is what go-redis says where all sentinels answer with an error.
const sentinelsFail = "all sentinels specified in configuration are unreachable"

// watch begins to watch for a user, until done is called.
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

// start listens to each sentinel. The mutex is held.
func (s *sentinels) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, o := range s.options {
		all.Go(func() {
			var known string
			var pause backoff.Pause
			for ctx.Err() == nil {
				s.listen(ctx, o, &known, &pause)
				pause.Wait(ctx)
			}
		})
	}
	s.stop = func() {
		cancel()
		all.Wait()
	}
}

// listen listens to one sentinel until the connection fails. known is the
// address of the master that it named last.
func (s *sentinels) listen(ctx context.Context, o *redis.Options, known *string, pause *backoff.Pause) {
	options := *o // which go-redis fills in
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
				s.lines.leave(*known)
			}
			*known = now
		}
	}
}
