package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// New returns a gateway to a store. It does not listen yet. Errors: a
// notify.ErrInvalid that names the wrong option, or the file that cannot be read.
func New(store *notify.Store, o Options) (*Gate, error) { return newGate(store, o, defaultTiming) }

func newGate(store *notify.Store, o Options, t timing) (*Gate, error) {
	if o.MaxBody == 0 {
		o.MaxBody = notify.DefaultMaxBody
	}
	if o.MaxConns == 0 {
		o.MaxConns = guard.DefaultMaxConns()
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = defaultMaxStreams
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Alive == nil {
		o.Alive = func() error { return nil }
	}
	if o.Heard == nil {
		o.Heard = func() []int64 { return nil }
	}
	if o.OnRequest == nil {
		o.OnRequest = func(string, int, time.Duration) {}
	}
	if o.OnClaimed == nil {
		o.OnClaimed = func(subscribers.Delivery, time.Duration) {}
	}
	claimer, err := subscribers.NewClaimer(store, subscribers.ClaimerOptions{Kind: "daemon", Version: o.Version, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	listener, err := subscribers.NewListener(store, subscribers.ListenerOptions{Version: o.Version, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	pub, err := notify.NewPublisher(store, notify.PublisherOptions{MaxBody: o.MaxBody})
	if err != nil {
		return nil, err
	}
	if o.Service == nil {
		if o.Service, err = calls.NewService(store, nil, o.Logger); err != nil {
			return nil, err
		}
		o.Service.MaxBody = o.MaxBody
	}
	g := &Gate{
		o: o, store: store, timing: t, pub: pub, claimer: claimer, listener: listener,
		keys: tokens.New(o.TokensFile),
	}
	g.closing, g.close = context.WithCancel(context.Background())
	if err := g.Reload(); err != nil {
		return nil, err
	}
	handler, err := g.handler()
	if err != nil {
		return nil, err
	}
	g.server = g.newServer(handler)
	return g, nil
}

const (
	maxHeaderBytes = 16 << 10
	maxUpload      = 128 << 10 // bytes of bodies that a connection of HTTP/2 may send before a handler reads them
)

func (g *Gate) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           g.bounded(handler),
		ReadHeaderTimeout: g.timing.header, // bodies and answers have deadlines of their own: a stream has no end
		IdleTimeout:       g.timing.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			WriteByteTimeout:              g.timing.answer, // deadlines of streams do not end a write to a client that reads nothing
			MaxReceiveBufferPerConnection: maxUpload,
			MaxReceiveBufferPerStream:     maxUpload,
		},
		ConnState: g.setState,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return guard.WithSlot(ctx, conn)
		},
		ErrorLog: slog.NewLogLogger(g.o.Logger.Handler(), slog.LevelDebug),
	}
}

// setState is called when a connection changes its state.
func (g *Gate) setState(conn net.Conn, state http.ConnState) {
	if one := guard.SlotOf(conn); one != nil {
		g.fresh.SetState(one, state)
		one.SetState(state)
	}
}

// bounded bounds how long a request's body may take to come and its answer to go, for
// every handler: before it answers, net/http reads what a handler left of a body,
// without a limit of time.
func (g *Gate) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.handling.RLock()
		defer g.handling.RUnlock()
		told, end := guard.BeginRequest(r)
		defer end()
		guard.OnSlot(r.Context(), g.fresh.Remove)
		rc := http.NewResponseController(w) // an error here means that the connection is gone
		now, within := time.Now(), g.timing.answer
		if r.ContentLength != 0 {
			_ = rc.SetReadDeadline(now.Add(g.timing.body))
			within += g.timing.body
		}
		_ = rc.SetWriteDeadline(now.Add(within))
		next.ServeHTTP(w, told)
	})
}

// Run serves the requests of some listeners until ctx ends or a listener fails. It then
// closes the listeners and all connections, and returns when no request is under way.
// The error is that of a listener.
func (g *Gate) Run(ctx context.Context, listeners ...net.Listener) error {
	polling, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.claimer.Run(polling)
	}()
	failed := make(chan error, len(listeners))
	g.listeners.Add(listeners...)
	for _, l := range listeners {
		go func() { failed <- g.serve(l) }()
	}
	defer context.AfterFunc(ctx, func() { g.server.Close() })()
	var err error
	for range listeners {
		if one := <-failed; !errors.Is(one, http.ErrServerClosed) && !g.draining.Load() {
			err = errors.Join(err, one)
			g.server.Close()
		}
	}
	if err == nil {
		<-ctx.Done()
	}
	g.server.Close()
	g.close() // a poll does not notice that its client is gone while further requests of it wait
	g.handling.Lock()
	//lint:ignore SA2001 requests under way hold it for reading
	g.handling.Unlock()
	if g.pages != nil {
		g.pages.Wait()
	}
	stop()
	<-ended
	return err
}

func (g *Gate) serve(l net.Listener) error {
	l = guard.NewSlots(l, g.o.MaxConns, g.timing.closed)
	if g.cert.Load() == nil {
		return g.server.Serve(l)
	}
	tlsConfig := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.cert.Load(), nil },
	}
	return g.server.Serve(tls.NewListener(l, tlsConfig))
}

// Quiesce stops accepting connections, ends polls and streams, and waits until the
// requests under way are answered, or ctx ends. Requests that come meanwhile get a 503.
// net/http would hang up on these, so its Shutdown is called once none can come.
func (g *Gate) Quiesce(ctx context.Context) {
	if g.draining.Swap(true) {
		return
	}
	g.close()
	g.listeners.Close()
	select { // clients that use a connection now are asked to close it; a request on a closing one would be lost without an answer
	case <-ctx.Done():
	case <-time.After(g.timing.linger):
	}
	g.server.SetKeepAlivesEnabled(false) // closes those that are idle
	g.fresh.Drain(ctx, g.timing.closed)
	if err := g.server.Shutdown(ctx); err != nil {
		g.o.Logger.Warn("cannot answer all requests before the stop; cutting them off", "error", err)
	}
}
