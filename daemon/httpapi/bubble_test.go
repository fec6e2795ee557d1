package httpapi_test

import (
	"bufio"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A bubble is a gateway whose connections are in memory, for tests under synctest: the clock of these stands still while
// anything goes on, so that bounds are exact. Its Redis is away.
type bubble struct {
	*httpapi.Gate
	t       testing.TB
	clients *pipes
	stop    func()
}

func newBubble(t testing.TB, o httpapi.Options) *bubble {
	t.Helper()
	store, err := notify.Open(notify.Config{URL: "unix://" + t.TempDir() + "/none"}) // refused at once: the clock waits for no kernel
	storetest.Must(t, err)
	t.Cleanup(func() {
		store.Close()
		time.Sleep(2 * time.Second) // of the bubble's clock: the client of a Redis that is away looks each second whether it was closed
	})
	gate, err := httpapi.New(store, o)
	storetest.Must(t, err)
	b := &bubble{Gate: gate, t: t, clients: &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})}}
	b.stop = storetest.Run(t, func(ctx context.Context) error { return gate.Run(ctx, b.clients) })
	return b
}

func (b *bubble) dial() *wire {
	b.t.Helper()
	conn, err := b.clients.dial()
	storetest.Must(b.t, err)
	b.t.Cleanup(func() { conn.Close() })
	return &wire{Conn: conn, t: b.t, r: bufio.NewReader(conn)}
}

// pipes is a listener of connections in memory.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialed <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
