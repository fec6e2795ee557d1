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

	mu      sync.Mutex
	meeting *meeting // nil: none
}

// A meeting is what a proxy does once, at a call that has a text, or behind it with its answer.
type meeting struct {
	text   string
	behind bool
	do     func(bytes []byte) (forward bool)
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
			answers := make(chan func([]byte) bool, 1)
			go p.carry(server, client, func(sent []byte) (forward bool) {
				if bytes.Contains(bytes.ToLower(sent), []byte("subscribe")) {
					subscribes.Store(true)
				}
				text := p.cuts.Load()
				return (text == nil || !bytes.Contains(sent, []byte(*text))) && p.meets(sent, answers)
			})
			go p.carry(client, server, func(answer []byte) (forward bool) {
				if subscribes.Load() {
					p.pushes.RLock()
					defer p.pushes.RUnlock()
				}
				select {
				case meets := <-answers:
					return meets(answer)
				default:
					return true
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

// Meet has f called once: at the next call that has a text, before the server gets it, or behind that with its answer, before the client gets
// it. If f reports false the connection is cut there. A Meet that f makes at a call is of the same call.
func (p *Proxy) Meet(text string, behind bool, f func(bytes []byte) (forward bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meeting = &meeting{text, behind, f}
}

// Hold holds the next call that has a text, from when it comes until let is called.
func (p *Proxy) Hold(text string) (at <-chan struct{}, let func()) {
	came, goes := make(chan struct{}), make(chan struct{})
	p.Meet(text, false, func([]byte) bool {
		close(came)
		<-goes
		return true
	})
	return came, sync.OnceFunc(func() { close(goes) })
}

// meets has what is sent meet who waits for it, at once or with its answer.
func (p *Proxy) meets(sent []byte, answers chan<- func([]byte) bool) (forward bool) {
	for {
		switch m := p.take(sent); {
		case m == nil:
			return true
		case m.behind:
			answers <- m.do
		case !m.do(sent):
			return false
		}
	}
}

// take returns the meeting of what is sent, and forgets it.
func (p *Proxy) take(sent []byte) *meeting {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meeting
	if m == nil || !bytes.Contains(sent, []byte(m.text)) {
		return nil
	}
	p.meeting = nil
	return m
}

// HoldPushes has the proxy hold back what Redis sends on connections that subscribe, until let is called.
func (p *Proxy) HoldPushes() (let func()) {
	p.pushes.Lock()
	return p.pushes.Unlock
}

// carry hands bytes on, after a look at them, which may cut the connection. What comes while the proxy is silent is lost, and so is what
// comes later on that connection.
func (p *Proxy) carry(to, from net.Conn, look func([]byte) (forward bool)) {
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
		if !look(buffer[:n]) {
			from.Close()
			to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
