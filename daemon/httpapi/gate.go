package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
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
	lookout   cache.Value[look]
	closing   context.Context // ends when polls and streams are to end
	close     func()
	streams   atomic.Int64
	waits     atomic.Int64
	cut       atomic.Int64
	snoozed   atomic.Int64
	logins    tokens.Logins
	pages     *console.Console // nil: there is none
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

// Claimer returns the claimer that Run runs, which other gateways of the process may share.
func (g *Gate) Claimer() *subscribers.Claimer { return g.claimer }

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

// Alive returns an error that names the stuck loops of the gateway.
func (g *Gate) Alive() error {
	if err := errors.Join(g.claimer.Alive(), g.listener.Alive()); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}
