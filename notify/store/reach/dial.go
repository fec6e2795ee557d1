package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// connections are all connections of a store. A network that drops packets
// silently kills them all at once, but go-redis notices each only by a call that
// times out. So connections that are silent are given up when the beat is missed.
type connections struct {
	mu  sync.Mutex
	all map[*connection]bool
}

// A connection notes when it was last read from, and what it was closed for.
type connection struct {
	net.Conn
	of        *connections
	to        string       // the address that was dialed,
	dialed    time.Time    // and when that was done
	since     atomic.Int64 // Unix time in ns of the last read, or of the first write after it
	asked     atomic.Bool  // something was written since the last read
	reading   atomic.Bool  // somebody waits for bytes
	spent     atomic.Bool  // it is closed, or go-redis is not to take it for another call
	abandoned atomic.Bool  // it was closed because its server is no longer the master
}

// errAbandoned is the error of a connection that was abandoned.
var errAbandoned = errors.New("the server is no longer the master")

// A dialer opens a connection.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns what opens connections with options: go-redis itself, or Dial.
func (c Config) dialer(o *redis.UniversalOptions) dialer {
	switch {
	case c.Dial == nil:
		return redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	case o.TLSConfig == nil:
		return c.Dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := o.TLSConfig.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(address)
		over := tls.Client(conn, secure)
		if err := over.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return over, nil
	}
}

// note returns a dialer that records each connection in cs.
func (cs *connections) note(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, of: cs, to: address, dialed: time.Now()}
		c.since.Store(c.dialed.UnixNano())
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.all == nil {
			cs.all = make(map[*connection]bool)
		}
		cs.all[c] = true
		return c, nil
	}
}

// hangUp gives up the connections to an address that were silent for a while; an empty
// address means all. Those on which
// somebody waits are closed: the caller gets an error now instead of a timeout. Idle
// ones are not used again. They stay open, since a call may take one at this moment.
func (cs *connections) hangUp(address string, quiet time.Duration) {
	before := time.Now().Add(-quiet).UnixNano()
	for _, c := range cs.to(address) {
		waits := c.asked.Load() || c.reading.Load() // read before since, which a call that begins sets first
		switch {
		case c.since.Load() >= before:
		case waits:
			c.Close()
		default:
			c.spent.Store(true)
		}
	}
}

// abandon closes the connections to an address that is no longer the master's, as far as
// they were dialed before a time: later ones may lead to the new master, whose address may be
// the same. An empty address means all. A caller that waits on one gets errAbandoned.
func (cs *connections) abandon(address string, before time.Time) {
	for _, c := range cs.to(address) {
		if c.dialed.Before(before) {
			c.abandoned.Store(true)
			c.Close()
		}
	}
}

// to returns the connections to an address; an empty address means all.
func (cs *connections) to(address string) (some []*connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.all {
		if address == "" || c.to == address {
			some = append(some, c)
		}
	}
	return some
}

// Read reads, and notes that the server answered.
func (c *connection) Read(p []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(p)
	c.reading.Store(false)
	if n > 0 {
		c.asked.Store(false)
		c.since.Store(time.Now().UnixNano())
	}
	if err != nil && c.abandoned.Load() {
		err = &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Addr: c.RemoteAddr(), Err: errAbandoned}
	}
	return n, err
}

// Write writes, and notes since when an answer is due.
func (c *connection) Write(p []byte) (int, error) {
	if !c.asked.Load() {
		c.since.Store(time.Now().UnixNano())
		c.asked.Store(true)
	}
	return c.Conn.Write(p)
}

// Close closes the connection.
func (c *connection) Close() error {
	c.spent.Store(true)
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn returns the socket, which go-redis checks before it uses an idle
// connection again: either side may have closed it, or it was given up.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if c.spent.Load() {
		return nil, net.ErrClosed
	}
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return opaque{}, nil
}

// opaque stands in for the socket under TLS, which go-redis must not check: bytes
// that wait there belong to TLS and may be no reply of Redis.
type opaque struct{}

func (opaque) Control(func(fd uintptr)) error    { return nil }
func (opaque) Read(func(fd uintptr) bool) error  { return nil }
func (opaque) Write(func(fd uintptr) bool) error { return nil }
