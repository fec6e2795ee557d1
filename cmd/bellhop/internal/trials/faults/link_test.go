package faults_test

import (
	"net"
	"sync"
	"time"
)

// A link is the connection of a process to a server. It can be cut like a network: what is
// sent meanwhile arrives later, unless the connection was reset.
type link struct {
	requests, replies gate

	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu    sync.Mutex
	ended bool
	conns map[*net.TCPConn]bool
}

// newLink opens a link to an address.
func newLink(to string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, to: to, conns: make(map[*net.TCPConn]bool)}
	k.all.Go(k.accept)
	return k, nil
}

// addr returns the address of the server over this link.
func (k *link) addr() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		in, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.all.Go(func() { k.connect(in.(*net.TCPConn)) })
	}
}

// connect passes a connection on until both sides have ended it.
func (k *link) connect(in *net.TCPConn) {
	if !k.keep(in) {
		return
	}
	defer k.drop(in)
	to, err := net.Dial("tcp", k.to)
	if err != nil {
		_ = in.SetLinger(0) // like a machine on which nothing listens at the port
		return
	}
	out := to.(*net.TCPConn)
	if !k.keep(out) {
		return
	}
	defer k.drop(out)
	var both sync.WaitGroup
	both.Go(func() { pass(in, out, &k.requests) })
	both.Go(func() { pass(out, in, &k.replies) })
	both.Wait()
}

// keep records a connection, or reports false if the link has ended.
func (k *link) keep(c *net.TCPConn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		c.Close()
		return false
	}
	k.conns[c] = true
	return true
}

func (k *link) drop(c *net.TCPConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
	c.Close()
}

// reset breaks all connections.
func (k *link) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		_ = c.SetLinger(0)
		c.Close()
	}
}

// close ends the link.
func (k *link) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.listener.Close()
	k.requests.open()
	k.replies.open()
	k.reset()
	k.all.Wait()
}

// chunk is the result of one read.
type chunk struct {
	data []byte
	at   time.Time
}

// pass copies one direction of a connection through its gate.
func pass(from, to *net.TCPConn, g *gate) {
	chunks := make(chan chunk, 1024)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				chunks <- chunk{buffer[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	broken := false
	for c := range chunks {
		if broken {
			continue
		}
		n := g.through(c)
		_, err := to.Write(c.data[:n])
		if broken = err != nil || n < len(c.data); broken {
			for _, side := range []*net.TCPConn{to, from} {
				_ = side.SetLinger(0)
				side.Close()
			}
		}
	}
	g.through(chunk{}) // the end of the connection does not overtake its data
	_ = to.CloseWrite()
}

// A gate holds, delays or breaks one direction of a link.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when the gate opens; nil: it is open
	delay time.Duration
	limit int // bytes until connections are reset; 0: none
}

// hold holds all data until the gate is opened.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// slow delays all data.
func (g *gate) slow(by time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = by
}

// breakAfter resets the connection that passes the last of a number of bytes.
func (g *gate) breakAfter(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = bytes
}

// open lets all data pass.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
	}
	g.shut, g.delay, g.limit = nil, 0, 0
}

// through waits until a chunk may pass, and returns how many of its bytes may.
func (g *gate) through(c chunk) int {
	g.mu.Lock()
	shut, delay := g.shut, g.delay
	g.mu.Unlock()
	if delay > 0 {
		<-time.After(time.Until(c.at.Add(delay))) // the latency of the link
	}
	if shut != nil {
		<-shut
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit == 0 {
		return len(c.data)
	}
	if g.limit > len(c.data) {
		g.limit -= len(c.data)
		return len(c.data)
	}
	n := g.limit - 1
	g.limit = 0
	return n
}
