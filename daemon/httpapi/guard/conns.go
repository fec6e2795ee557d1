// Package guard keeps slow and greedy clients from the others: it limits connections, and the memory
// that the calls of one token take.
package guard

import (
	"container/list"
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// reservedFiles are the open files kept from clients, for connections to Redis and NATS, and files.
const reservedFiles = 256

// DefaultMaxConns returns the default of Options.MaxConns: the process's limit of open
// files, less reservedFiles. Without a limit clients would take the last file, and the
// carrier could not connect to Redis again.
func DefaultMaxConns() int {
	most := Files()
	return max(most-reservedFiles, most/2, 1)
}

// Files returns the process's limit of open files.
func Files() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt32
	}
	return int(min(files.Cur, math.MaxInt32))
}

// probe detects within half a minute a client that is gone without closing its
// connection: its poll would be handed messages.
var probe = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// probing is a listener whose connections are probed by the kernel.
type probing struct{ net.Listener }

// Accept waits for a connection.
func (p probing) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probe) // an error means that it is gone already
	}
	return conn, err
}

// slots is a listener with a limit of connections at a time. A further one replaces an
// idle connection, or one that is slow to send a request: first an idle one of a
// stranger, who showed no known token, then one whose header is slow, or a stranger's
// body, then one whose body is slow if those are more than half of all, and last an
// idle one of a known client. While there is none to replace, it waits.
type slots struct {
	net.Listener
	most int           // connections at a time
	slow time.Duration // how long a header, a stranger's body, and brisk bytes of another body may take while others wait

	mu        sync.Mutex
	freed     sync.Cond // signalled when a connection is closed or may be closed
	closed    bool
	open      int
	strangers list.List // idle connections of strangers, longest idle first
	known     list.List // idle connections of known clients
	coming    list.List // connections whose header has not come whole, or whose body, and they showed no token
	bodies    list.List // connections of known clients whose bodies have not come whole
}

func NewSlots(l net.Listener, most int, slow time.Duration) *slots {
	s := &slots{Listener: probing{l}, most: most, slow: slow}
	s.freed.L = &s.mu
	return s
}

// A Slot is a connection. slots.mu guards all but Conn.
type Slot struct {
	net.Conn
	of     *slots
	known  bool       // its client showed a token
	under  int        // requests under way, of which HTTP/2 may have several
	whole  int        // those of them that have come whole
	in     *list.List // nil: a request under way has come whole
	at     *list.Element
	since  time.Time
	closed bool
}

// Accept waits for a connection, and until there is a place for it.
func (s *slots) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open >= s.most && !s.closed && !s.evict() {
		s.wait()
	}
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	s.open++
	one := &Slot{Conn: conn, of: s}
	one.move(&s.coming)
	return one, nil
}

// wait waits until a connection is closed or may be closed. The mutex is held.
func (s *slots) wait() {
	for _, first := range []*list.Element{s.coming.Front(), s.crowding()} {
		if first != nil {
			defer time.AfterFunc(time.Until(first.Value.(*Slot).since.Add(s.slow)), s.freed.Broadcast).Stop()
		}
	}
	s.freed.Wait()
}

// evict closes a connection that is idle or slow. It reports whether there was one. The mutex is held.
func (s *slots) evict() bool {
	for _, first := range []*list.Element{s.strangers.Front(), s.coming.Front(), s.crowding(), s.known.Front()} {
		if first == nil {
			continue
		}
		one := first.Value.(*Slot)
		if one.in == &s.strangers || one.in == &s.known || time.Since(one.since) >= s.slow {
			one.close()
			return true
		}
	}
	return false
}

// crowding returns the first of the bodies if they take more than half of all connections, else nil. The mutex is held.
func (s *slots) crowding() *list.Element {
	if s.bodies.Len() > s.most/2 {
		return s.bodies.Front()
	}
	return nil
}

// Close closes the listener.
func (s *slots) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.freed.Broadcast()
	return s.Listener.Close()
}

// move puts a connection into another list, or into none. The mutex is held.
func (c *Slot) move(to *list.List) {
	if c.in != nil {
		c.in.Remove(c.at)
	}
	if c.in = to; to != nil {
		c.at, c.since = to.PushBack(c), time.Now()
		c.of.freed.Broadcast()
	}
}

// close closes a connection, once. The mutex is held.
func (c *Slot) close() error {
	if !c.closed {
		c.closed = true
		c.move(nil)
		c.of.open--
		c.of.freed.Broadcast()
	}
	return c.Conn.Close()
}

// Close closes the connection.
func (c *Slot) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.close()
}

// SetState is called when the connection changes its state. At most a quarter of all
// connections may be idle ones of strangers, whether others wait or not.
func (c *Slot) SetState(state http.ConnState) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch {
	case c.closed:
	case state == http.StateActive && c.in != nil:
		c.move(&c.of.coming)
	case state == http.StateIdle && c.known:
		c.move(&c.of.known)
	case state == http.StateIdle:
		c.move(&c.of.strangers)
		if c.of.strangers.Len() > max(c.of.most/4, 1) {
			c.of.evict()
		}
	}
}

// Authenticate notes that the client of a request showed a known token.
func (c *Slot) Authenticate() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.known = true; c.in == &c.of.coming && c.under > 0 {
		c.move(&c.of.bodies)
	}
}

// Refresh notes that a body had to wait for the server, or is not slow.
func (c *Slot) Refresh() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.in == &c.of.bodies {
		c.move(c.in)
	}
}

// begin notes that the header of a request has come, and whether that is all of it.
func (c *Slot) begin(whole bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.under++; whole {
		c.come()
	} else {
		c.awaitRest()
	}
}

// arrive notes that the rest of a request has come.
func (c *Slot) arrive() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.come()
}

// come counts a request that has come whole. The mutex is held.
func (c *Slot) come() {
	if c.whole++; c.in == &c.of.coming || c.in == &c.of.bodies {
		c.move(nil)
	}
}

// end notes that a request is answered, and whether it had come whole.
func (c *Slot) end(whole bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.under--; whole {
		c.whole--
	}
	c.awaitRest()
}

// awaitRest puts a connection of which no request under way has come whole among those that make way: HTTP/2 begins and ends requests in any
// order. The mutex is held.
func (c *Slot) awaitRest() {
	switch {
	case c.under == 0 || c.whole > 0 || c.in != nil || c.closed:
	case c.known:
		c.move(&c.of.bodies)
	default:
		c.move(&c.of.coming)
	}
}

type slotKey struct{}

// SlotOf returns the slot of a connection, with or without TLS; nil if it has none.
func SlotOf(conn net.Conn) *Slot {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	one, _ := conn.(*Slot)
	return one
}

// OnSlot calls f with the slot of a request's connection, if there is one.
func OnSlot(ctx context.Context, f func(*Slot)) {
	if one, _ := ctx.Value(slotKey{}).(*Slot); one != nil {
		f(one)
	}
}

// WithSlot returns the context of the requests on a connection, for OnSlot.
func WithSlot(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, slotKey{}, SlotOf(conn))
}
