package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// Options are the options of a Gate. The zero value is the default.
type Options struct {
	Version     string   // of the program, for the OpenAPI document
	TokensFile  string   // lines of NAME TOKEN RIGHTS TOPICS; empty: everybody may do everything
	CertFile    string   // PEM certificates, for TLS; empty: no TLS
	KeyFile     string   // PEM private key of the first certificate
	CORSOrigins []string // origins whose pages may call, such as https://example.com, or *; none: no page of another origin
	LocalHosts  bool     // requests that no token guards must go to an address, localhost or a name of this machine: a web page can make its own name point here
	Hosts       []string // further names of this machine beside its hostname, or *.NAME for all names below NAME

	MaxConns   int          // connections at a time, for each listener; more replace idle ones, or wait. Zero: the limit of open files less 256
	MaxStreams int          // streams of broadcasts that one token may have open at a time; zero: 10,000
	MaxBody    int          // bytes of the largest body of a publish; zero: notify.DefaultMaxBody
	Logger     *slog.Logger // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)

	Alive   func() error   // reports the stuck parts of the process, for /healthz; nil: none can be stuck
	Heard   func() []int64 // returns for each shard the epoch of the carrier whose beats arrive, for /readyz; zero: none do. Nil: nobody is heard
	Metrics http.Handler   // of /metrics; nil: there is none

	Service *calls.Service // that all gateways of a process share; nil: one of its own, without an archive
	Console bool           // serve the pages for operators
	Doctor  doctor.Options // whose findings the pages show

	MetricsNeedToken bool // /metrics requires a token with the right metrics, so a TokensFile is needed

	// OnRequest is called after each request, with the operation's id. It must not block. Nil: no call.
	OnRequest func(operation string, status int, took time.Duration)
	// OnClaimed is called for each claimed message, with the time from due to claimed. It must not block. Nil: no call.
	OnClaimed func(d subscribers.Delivery, late time.Duration)
}

// A Gate is the gateway that offers a store over HTTP. It is run once.
type Gate struct {
	o        Options
	store    *notify.Store
	pub      *notify.Publisher
	claimer  *subscribers.Claimer
	listener *subscribers.Listener
	keys     *tokens.Keys
	cert     atomic.Pointer[tls.Certificate]
	mux      *http.ServeMux
	server   *http.Server

	timing    timing
	fresh     guard.FreshConns
	listeners guard.Listeners
	handling  sync.RWMutex // held for reading by each request under way
	draining  atomic.Bool
	closing   context.Context // ends when polls and streams are to end
	close     func()
	streams   atomic.Int64
	waits     atomic.Int64
	cut       atomic.Int64
	snoozed   atomic.Int64
	logins    tokens.Logins
	pages     *console.Console // nil: there is none
}

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

// timing is how long clients may take.
type timing struct {
	header time.Duration // for the header of a request to come
	memory time.Duration // for which a call or a stream waits until its token has memory
	body   time.Duration // for its body to come
	answer time.Duration // for the answer to be taken
	idle   time.Duration // for which a connection is kept without a request
	quiet  time.Duration // after which a stream gets a comment, so that no proxy closes it
	linger time.Duration // for which idle connections stay open when the gateway closes
	closed time.Duration // for clients to read the rest when the gateway closes, or to send on a new connection
}

// defaultTiming is the timing outside tests.
var defaultTiming = timing{
	header: 10 * time.Second, memory: 10 * time.Second, body: 30 * time.Second, answer: 30 * time.Second,
	idle: 2 * time.Minute, quiet: 15 * time.Second, linger: 100 * time.Millisecond, closed: time.Second,
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
		guard.OnSlot(r.Context(), func(one *guard.Slot) { one.BeginRequest(r.ContentLength != 0) })
		guard.OnSlot(r.Context(), g.fresh.Remove)
		rc := http.NewResponseController(w) // an error here means that the connection is gone
		now, within := time.Now(), g.timing.answer
		if r.ContentLength != 0 {
			_ = rc.SetReadDeadline(now.Add(g.timing.body))
			within += g.timing.body
		}
		_ = rc.SetWriteDeadline(now.Add(within))
		next.ServeHTTP(w, r)
	})
}

// Claimer returns the claimer that Run runs, which other gateways of the process may share.
func (g *Gate) Claimer() *subscribers.Claimer { return g.claimer }

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

// Stats are the gateway's present load, and what it counted since it was made.
type Stats struct {
	Polls     int64 // claims that wait at present
	Streams   int64 // listeners at present
	Waits     int64 // calls that wait for the end of a message at present
	Viewers   int64 // pages of the console that are open at present
	Cut       int64 // streams that were cut off because their clients were too slow
	Refused   int64 // requests without a known token
	Snoozed   int64 // messages put off without an attempt used up
	Fallbacks int64 // times that a beat woke a poll whose ring was lost; should stay 0
	Handovers subscribers.SubscriberStats
	Listener  subscribers.ListenerStats
	Publisher notify.PublisherStats
}

// Stats returns the gateway's statistics.
func (g *Gate) Stats() Stats {
	polls := g.claimer.Stats()
	var viewers int64
	if g.pages != nil {
		viewers = g.pages.Viewers()
	}
	return Stats{
		Viewers: viewers,
		Polls:   polls.Waiting, Streams: g.streams.Load(), Waits: g.waits.Load(), Cut: g.cut.Load(), Refused: g.logins.Count(), Snoozed: g.snoozed.Load(),
		Fallbacks: polls.Fallbacks, Handovers: polls.SubscriberStats, Listener: g.listener.Stats(), Publisher: g.pub.Stats(),
	}
}

// open returns a context for a call that waits. It ends with the request, when the
// gateway closes, or when the token is revoked. It costs no goroutine.
func (c *call) open(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := context.AfterFunc(c.gate.closing, func() { cancel(errDraining) })
	revoked := context.AfterFunc(c.grant.Valid, func() { cancel(tokens.ErrUnknown) })
	return ctx, func() {
		closed()
		revoked()
		cancel(nil)
	}
}

// Alive returns an error that names the stuck loops of the gateway.
func (g *Gate) Alive() error {
	if err := errors.Join(g.claimer.Alive(), g.listener.Alive()); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}
