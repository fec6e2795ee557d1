package store

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// lines are the connections of a store. A network that drops them silently
// kills them all at once, but go-redis finds out about each only by a call that
// times out; so those that are silent are closed when the beat is missed.
type lines struct {
	mu  sync.Mutex
	all map[*line]bool
}

// A line is one connection.
type line struct {
	net.Conn
	of     *lines
	to     string       // the address, as it was dialed
	since  atomic.Int64 // Unix time in ns of the last read, or of the first write after it
	asked  atomic.Bool  // something was written since the last read
	closed atomic.Bool
	left   atomic.Bool // it was closed because it led to no master any more
}

// errLeft is why a connection ended that led to no master any more.
var errLeft = errors.New("the server is the master no more")

// dialer returns the dialer of go-redis, whose connections l keeps in mind.
func (l *lines) dialer(o *redis.Options) func(context.Context, string, string) (net.Conn, error) {
	dial := redis.NewDialer(o)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		one := &line{Conn: conn, of: l, to: address}
		one.since.Store(time.Now().UnixNano())
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all == nil {
			l.all = make(map[*line]bool)
		}
		l.all[one] = true
		return one, nil
	}
}

// hangUp closes the connections that were idle, or did not answer, for a while.
// Who waits on one gets an error now instead of a timeout.
func (l *lines) hangUp(quiet time.Duration) {
	before := time.Now().Add(-quiet).UnixNano()
	for _, one := range l.those(func(one *line) bool { return one.since.Load() < before }) {
		one.Close()
	}
}

// leave closes the connections to an address that is the master's no more, or
// all of them where it is empty. Who waits on one gets an error.
func (l *lines) leave(address string) {
	for _, one := range l.those(func(one *line) bool { return address == "" || one.to == address }) {
		one.left.Store(true)
		one.Close()
	}
}

// those returns the connections that fit.
func (l *lines) those(fits func(*line) bool) (some []*line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		if fits(one) {
			some = append(some, one)
		}
	}
	return some
}

// Read reads, and takes note that something was heard.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.asked.Store(false)
		l.since.Store(time.Now().UnixNano())
	}
	if err != nil && l.left.Load() {
		err = &net.OpError{Op: "read", Net: l.LocalAddr().Network(), Addr: l.RemoteAddr(), Err: errLeft}
	}
	return n, err
}

// Write writes, and takes note of since when an answer is due.
func (l *line) Write(p []byte) (int, error) {
	if l.asked.CompareAndSwap(false, true) {
		l.since.Store(time.Now().UnixNano())
	}
	return l.Conn.Write(p)
}

// Close closes the connection.
func (l *line) Close() error {
	l.closed.Store(true)
	l.of.mu.Lock()
	delete(l.of.all, l)
	l.of.mu.Unlock()
	return l.Conn.Close()
}

// SyscallConn is how go-redis looks at an idle connection before it uses it
// again: it sees whether it was closed, by either side.
func (l *line) SyscallConn() (syscall.RawConn, error) {
	if l.closed.Load() {
		return nil, net.ErrClosed
	}
	if raw, ok := l.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return unseen{}, nil
}

// unseen is the socket under TLS, at which nobody may look: what waits there is
// not what Redis sent.
type unseen struct{}

func (unseen) Control(func(fd uintptr)) error    { return nil }
func (unseen) Read(func(fd uintptr) bool) error  { return nil }
func (unseen) Write(func(fd uintptr) bool) error { return nil }
