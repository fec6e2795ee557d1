package storetest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy hands on what it gets, until it falls silent: then it keeps connections open, and nobody hears of it.
type Proxy struct {
	l      net.Listener
	silent atomic.Bool
	cuts   atomic.Pointer[string] // what no connection may send
	pushes sync.RWMutex           // locked for writing while what subscribers are sent is held back
}

// NewProxy starts a proxy to an address. It ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l}
	Run(t, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		for {
			client, err := l.Accept()
			if err != nil {
				return nil // it was closed
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			context.AfterFunc(ctx, func() { client.Close(); server.Close() })
			subscribes := new(atomic.Bool)
			go p.carry(server, client, func(sent []byte) {
				if bytes.Contains(bytes.ToLower(sent), []byte("subscribe")) {
					subscribes.Store(true)
				}
				if text := p.cuts.Load(); text != nil && bytes.Contains(sent, []byte(*text)) {
					client.Close()
					server.Close()
				}
			})
			go p.carry(client, server, func([]byte) {
				if subscribes.Load() {
					p.pushes.RLock()
					defer p.pushes.RUnlock()
				}
			})
		}
	})
	return p
}

// Address returns HOST:PORT of the proxy.
func (p *Proxy) Address() string { return p.l.Addr().String() }

// Silence has the proxy fall silent, or take new connections again: one that lost something stays silent.
func (p *Proxy) Silence(on bool) { p.silent.Store(on) }

// Cut has the proxy cut connections on which a text comes from now on, before Redis gets it.
func (p *Proxy) Cut(text string) { p.cuts.Store(&text) }

// HoldPushes has the proxy hold back what Redis sends on connections that subscribe, until let is called.
func (p *Proxy) HoldPushes() (let func()) {
	p.pushes.Lock()
	return p.pushes.Unlock
}

// carry hands bytes on, after a look at them. What comes while the proxy is silent is lost, and so is what comes later on that connection.
func (p *Proxy) carry(to, from net.Conn, look func([]byte)) {
	buffer, lost := make([]byte, 64<<10), false
	for {
		n, err := from.Read(buffer)
		if err != nil {
			if err == io.EOF && !p.silent.Load() {
				to.Close()
			}
			return
		}
		if lost = lost || p.silent.Load(); lost {
			continue
		}
		look(buffer[:n])
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
