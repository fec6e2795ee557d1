package natsgate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/progress"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// Defaults and limits of Options.
const (
	DefaultPrefix   = "bellhop"
	DefaultInFlight = 64
	DefaultGrace    = 5 * time.Second
	MaxInFlight     = 10_000
	maxPrefix       = 64  // bytes of a prefix
	maxStream       = 255 // bytes of the name of a stream
)

// Options are the options of a Gate. URL is required; the zero value of the
// others is the default.
type Options struct {
	URL       string // nats:// or tls://, with USER:PASSWORD@ or TOKEN@ where the server wants it; several, separated by commas, are servers of one cluster
	CredsFile string // holds the JWT and the seed of a user; read at every connect
	CAFile    string // PEM certificates to trust, with TLS; read at every connect
	Prefix    string // what all subjects begin with; empty: DefaultPrefix
	Name      string // of this connection, for people; empty: bellhop HOST:PID

	Deliver   []Deliver // topics whose messages are sent to whoever listens
	JetStream string    // stream that broadcasts go to; empty: none

	Grace     time.Duration // for answers to what was delivered, when a term ends; zero: DefaultGrace
	KeepCount int           // broadcasts of a topic that a stream keeps which is made here; zero: carrier.DefaultKeepCount
	KeepAge   time.Duration // for how long it keeps them; zero: carrier.DefaultKeepAge
	MaxBody   int           // bytes of the largest body that is published; zero: notify.DefaultMaxBody
	Logger    *slog.Logger  // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)

	// OnClaimed is called for each message that was sent to who claimed it or
	// listens, with the time from when it was due until it was claimed. It must not
	// block, and must be safe for concurrent use.
	OnClaimed func(d subscribers.Delivery, late time.Duration)
}

// Deliver is a topic whose messages are sent to whoever listens.
type Deliver struct {
	Topic    string
	InFlight int // messages that are not settled yet, at the most
}

// ParseDeliver reads topics separated by commas, each TOPIC or TOPIC:INFLIGHT.
// The error is a notify.ErrInvalid.
func ParseDeliver(text string) ([]Deliver, error) {
	if text == "" {
		return nil, nil
	}
	var all []Deliver
	seen := make(map[string]bool)
	for one := range strings.SplitSeq(text, ",") {
		topic, number, limited := strings.Cut(strings.TrimSpace(one), ":")
		d := Deliver{Topic: topic, InFlight: DefaultInFlight}
		if err := store.CheckTopic(topic); err != nil {
			return nil, store.Renamed("deliver", err)
		}
		if limited {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > MaxInFlight {
				return nil, store.Faultf("deliver", "deliver %.200q: write TOPIC, or TOPIC:N with N messages in flight at the most, 1 to %d", one, MaxInFlight)
			}
			d.InFlight = n
		}
		if seen[topic] {
			return nil, store.Faultf("deliver", "deliver: the topic %s is named twice; name it once", topic)
		}
		seen[topic] = true
		all = append(all, d)
	}
	return all, nil
}

var (
	prefixGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	streamGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// checkPrefix reports what is wrong with a prefix of subjects.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix || !prefixGrammar.MatchString(prefix) {
		return store.Faultf("prefix", "nats prefix %.100q: use tokens of letters, digits, _ and -, joined by single dots, of at most %d bytes in all", prefix, maxPrefix)
	}
	if strings.HasPrefix(prefix+".", nats.InboxPrefix) {
		return store.Faultf("prefix", "nats prefix %s: answers go there, and would pass for messages of bellhop; use another, such as %s", prefix, DefaultPrefix)
	}
	return nil
}

// checkStream reports what is wrong with the name of a stream, if there is one.
func checkStream(name string) error {
	if name != "" && (len(name) > maxStream || !streamGrammar.MatchString(name)) {
		return store.Faultf("jetstream", "jetstream %.100q: use the name of a stream: letters, digits, _ and -, at most %d bytes", name, maxStream)
	}
	return nil
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("bellhop %s:%d", host, os.Getpid())
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.KeepCount == 0 {
		o.KeepCount = carrier.DefaultKeepCount
	}
	if o.KeepAge == 0 {
		o.KeepAge = carrier.DefaultKeepAge
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// check returns a joined notify.Fault for each option that is wrong.
func (o Options) check() error {
	return errors.Join(
		checkPrefix(o.Prefix), checkStream(o.JetStream), o.checkDeliver(),
		o.checkGrace(), checkCA(o.CAFile), checkCreds(o.CredsFile),
	)
}

func (o Options) checkDeliver() error {
	for _, d := range o.Deliver {
		if err := store.CheckTopic(d.Topic); err != nil {
			return store.Renamed("deliver", err)
		}
		if d.InFlight < 1 || d.InFlight > MaxInFlight {
			return store.Faultf("deliver", "deliver %s: %d messages in flight; use 1 to %d", d.Topic, d.InFlight, MaxInFlight)
		}
	}
	return nil
}

func (o Options) checkGrace() error {
	if o.Grace < 0 {
		return store.Faultf("grace", "grace %v: it is negative; use zero or more", o.Grace)
	}
	return nil
}

// A Gate connects a store to NATS. It is run once.
type Gate struct {
	o         Options
	servers   []server // that are configured
	found     []server // that their cluster told of; only Run uses it
	store     *notify.Store
	pub       *notify.Publisher
	inspector *notify.Inspector
	claimer   *subscribers.Claimer
	listener  *subscribers.Listener // of the bridge
	hinting   *progress.Loop
	secret    secret
	hands     hands
	claims    chan struct{} // of those that are under way
	count     counters
	told      told
	link      link

	noReply, badReply seldom

	made      time.Time
	identity  micro.ServiceIdentity
	endpoints []endpoint

	bridging atomic.Bool // the place of the bridge was kept once

	line atomic.Pointer[line] // the connection that stands; nil: none

	mu      sync.Mutex
	quiet   bool          // no more requests are accepted
	service *service      // of the connection that stands; nil: none
	change  chan struct{} // closed when line changes
}

// New returns a gate between a store and NATS. It does not connect yet. Errors:
// a joined notify.Fault for each option that is wrong, or whose file cannot be read.
func New(s *notify.Store, o Options) (*Gate, error) {
	o = o.withDefaults()
	servers, err := parseServers(o.URL)
	pub, noPublisher := notify.NewPublisher(s, notify.PublisherOptions{MaxBody: o.MaxBody})
	inspector, _ := notify.NewInspector(s) // its faults are among those of the publisher
	if err := errors.Join(err, noPublisher, o.check()); err != nil {
		return nil, err
	}
	claimer, err := subscribers.NewClaimer(s, subscribers.ClaimerOptions{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	listener, err := subscribers.NewListener(s, subscribers.ListenerOptions{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	g := &Gate{
		o: o, servers: servers, store: s, pub: pub, claimer: claimer, listener: listener, inspector: inspector,
		hinting:  progress.New("hints", time.Minute),
		secret:   secret{store: s},
		hands:    newHands(),
		claims:   make(chan struct{}, maxClaims),
		made:     time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: serviceName, ID: rand.Text(), Version: serviceVersion, Metadata: map[string]string{"prefix": o.Prefix}},
	}
	g.link = link{log: o.Logger, where: RedactURLs(o.URL), count: &g.count}
	g.told = told{log: o.Logger, kinds: make(map[string]*outage.Notice)}
	g.change = make(chan struct{})
	g.endpoints = g.makeEndpoints()
	return g, nil
}

const (
	stopTimeout    = 5 * time.Second  // for what is in hand, where Quiesce was not called before
	requestTimeout = 10 * time.Second // for one request
)

// Run connects to NATS and serves until ctx ends; then it finishes what is in
// hand, disconnects and returns nil. A NATS that is away, or refuses the
// credentials, does not end it: it logs the change and tries again, at most a
// second later.
func (g *Gate) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	var pause backoff.Pause
	for ctx.Err() == nil {
		l, err := g.connect(ctx)
		if err == nil {
			began := time.Now()
			err = g.serve(ctx, work, l)
			if time.Since(began) > backoff.Max {
				pause.Reset()
			}
		}
		if ctx.Err() == nil {
			g.link.down(err)
			pause.Wait(ctx)
		}
	}
	g.hands.end()
	return nil
}

// serve serves on one connection until ctx ends or the connection is lost, and
// returns why it was.
func (g *Gate) serve(ctx, work context.Context, l *line) error {
	g.told.anew()
	err := g.open(work, l)
	if err == nil {
		g.link.up(l.server.String())
		select {
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(work, stopTimeout)
			defer cancel()
			g.Quiesce(stop)
		case <-l.closed:
		}
	}
	g.mu.Lock()
	g.stand(nil)
	service := g.service
	g.service = nil
	g.mu.Unlock()
	if service != nil {
		_ = service.stop() // where the connection is lost it has stopped by itself
	}
	if lost := g.hangUp(l); err == nil {
		err = lost
	}
	return err
}

// open makes a connection the one that stands, and accepts requests on it
// unless that is over.
func (g *Gate) open(work context.Context, l *line) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stand(l)
	if g.quiet {
		return nil
	}
	service, err := g.addService(work, l.conn)
	g.service = service
	return err
}

// stand makes a connection the one that stands, nil for none. The mutex is held.
func (g *Gate) stand(l *line) {
	g.line.Store(l)
	close(g.change)
	g.change = make(chan struct{})
}

// Quiesce accepts no more requests over NATS, and waits until those in hand
// are answered, or ctx ends. The connection stays until Run ends.
func (g *Gate) Quiesce(ctx context.Context) {
	g.mu.Lock()
	g.quiet = true
	service := g.service
	g.mu.Unlock()
	l := g.line.Load()
	if service != nil && l != nil && service.stop() == nil {
		l.drain(ctx)
	}
	g.hands.wait(ctx)
}

// send sends a message on the connection that stands. Nothing is kept for
// later: the error is nats.ErrDisconnected where there is none.
func (g *Gate) send(m *nats.Msg) error {
	l := g.line.Load()
	if l == nil {
		return nats.ErrDisconnected
	}
	return l.conn.PublishMsg(m)
}

// handedOut tells of a message that was sent to who has it now.
func (g *Gate) handedOut(d subscribers.Delivery) {
	if g.o.OnClaimed != nil {
		g.o.OnClaimed(d, d.Late())
	}
}

// Alive returns an error that names the loops of the gate that are stuck.
func (g *Gate) Alive() error {
	if err := errors.Join(g.hinting.Alive(), g.listener.Alive()); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// maxPayload returns the bytes, headers included, that a message may have.
func (g *Gate) maxPayload() int64 {
	l := g.line.Load()
	if l == nil {
		return 0
	}
	return l.conn.MaxPayload()
}
