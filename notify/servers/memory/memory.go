// Package memory is a Redis in the memory of this process, for a trial and for tests. It holds one shard, and forgets
// everything when it stops. Keys expire by the clock of the process, which in a bubble of testing/synctest is that of the
// bubble.
package memory

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// A Server is a Redis in memory. It is safe for concurrent use.
type Server struct {
	redis *miniredis.Miniredis

	mu      sync.Mutex
	address string // at which it listens; empty: at none
	stopped bool
}

// New returns a server that Dial reaches. It starts no goroutine, and needs no port.
func New() *Server {
	s := &Server{redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)
	return s
}

// Listen has the server listen on loopback, too. Port zero: any that is free. Call Listen before Dial.
func (s *Server) Listen(port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.redis.StartAddr(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return fmt.Errorf("start redis in memory: %w", err)
	}
	s.address = s.redis.Addr()
	return nil
}

// Dial connects to the server without a network, whatever the address is: it is a notify.Config.Dial. The error is a
// net.ErrClosed: the server has stopped.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, fmt.Errorf("connect to redis in memory: %w", net.ErrClosed)
	}
	if s.redis.Server() == nil { // only Dial starts one that does not listen
		first, err := s.redis.Dial()
		if err != nil {
			return nil, err
		}
		first.Close()
	}
	client, server := pipe()
	s.redis.Server().ServeConn(server)
	return client, nil
}

// Addr returns the address at which the server listens; empty: at none.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// URL returns the URL of the server. Where it does not listen, only Dial leads there.
func (s *Server) URL() string {
	if address := s.Addr(); address != "" {
		return "redis://" + address
	}
	return "redis://memory"
}

// Stop closes all connections, and returns when the goroutines of the server have ended.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.redis.CtxCancel()
	s.redis.Close()
}
