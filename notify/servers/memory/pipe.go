package memory

import (
	"io"
	"net"
	"sync"
	"time"
)

// A server answers the first commands of a pipeline before it has read the last ones: over a bare net.Pipe, both ends would wait for each
// other. So what a client writes waits in memory until the server reads it, and no write of a client blocks.

// pipe returns both ends of a connection.
func pipe() (client, server net.Conn) {
	c, s := net.Pipe()
	u := &unread{}
	u.more.L = &u.mu
	return clientEnd{c, u}, serverEnd{s, u}
}

// unread is what a client has written and the server has not read.
type unread struct {
	mu     sync.Mutex
	more   sync.Cond
	bytes  []byte
	closed bool
}

func (u *unread) read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.bytes) == 0 {
		if u.closed {
			return 0, io.EOF
		}
		u.more.Wait()
	}
	n := copy(p, u.bytes)
	u.bytes = u.bytes[n:]
	return n, nil
}

func (u *unread) write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, io.ErrClosedPipe
	}
	u.bytes = append(u.bytes, p...)
	u.more.Signal()
	return len(p), nil
}

func (u *unread) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	u.more.Signal()
}

type clientEnd struct {
	net.Conn
	unread *unread
}

func (c clientEnd) Write(p []byte) (int, error)      { return c.unread.write(p) }
func (c clientEnd) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c clientEnd) SetWriteDeadline(time.Time) error { return nil }

func (c clientEnd) Close() error {
	c.unread.close()
	return c.Conn.Close()
}

type serverEnd struct {
	net.Conn
	unread *unread
}

func (s serverEnd) Read(p []byte) (int, error) { return s.unread.read(p) }

func (s serverEnd) Close() error {
	s.unread.close()
	return s.Conn.Close()
}
