package natsgate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

// Defaults and limits of Options.
const (
	DefaultPrefix = "bellhop"
	maxPrefix     = 64  // bytes of a prefix
	maxStream     = 255 // bytes of the name of a stream
)

// Options are the options of a Gate. URL is required; the zero value of the
// others is the default.
type Options struct {
	URL       string // nats:// or tls://, with USER:PASSWORD@ or TOKEN@ if the server requires it; several, separated by commas, are servers of one cluster
	CredsFile string // with the JWT and the seed of a user; read at every connect
	CAFile    string // PEM certificates to trust, with TLS; read at every connect
	Prefix    string // of all subjects; empty: DefaultPrefix
	Name      string // of this connection, for people; empty: bellhop HOST:PID
	Version   string // of the program

	JetStream string // stream for broadcasts; empty: none

	KeepCount int            // broadcasts of a topic that a stream made by the gateway keeps; zero: carrier.DefaultKeepCount
	KeepAge   time.Duration  // how long such a stream keeps them; zero: carrier.DefaultKeepAge
	MaxBody   int            // bytes of the largest body to publish; zero: notify.DefaultMaxBody
	Logger    *slog.Logger   // nil: slog.Default(); to be silent: slog.New(slog.DiscardHandler)
	Service   *calls.Service // that all gateways of a process share; nil: one of its own

	Claimer *subscribers.Claimer // the same, which another of them runs; nil: one that Run runs

	// OnClaimed is called for each message that was sent to the client that claimed it, with
	// the time from its due time until its claim. It must not block, and must be safe for
	// concurrent use.
	OnClaimed func(d subscribers.Delivery, late time.Duration)
}

var (
	prefixGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	streamGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// checkPrefix returns what is wrong with a prefix of subjects.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix || !prefixGrammar.MatchString(prefix) {
		return fault.New("prefix", "nats prefix %.100q: use tokens of letters, digits, _ and -, joined by single dots, of at most %d bytes in all", prefix, maxPrefix)
	}
	if strings.HasPrefix(prefix+".", nats.InboxPrefix) {
		return fault.New("prefix", "nats prefix %s: answers go there, and would pass for messages of bellhop; use another, such as %s", prefix, DefaultPrefix)
	}
	return nil
}

// checkStream returns what is wrong with the name of a stream, if there is one.
func checkStream(name string) error {
	if name != "" && (len(name) > maxStream || !streamGrammar.MatchString(name)) {
		return fault.New("jetstream", "jetstream %.100q: use the name of a stream: letters, digits, _ and -, at most %d bytes", name, maxStream)
	}
	return nil
}

// withDefaults replaces zero values by defaults.
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

// Check returns a joined notify.Fault for each option that is wrong, or whose file cannot
// be read. It does not connect.
func (o Options) Check() error {
	_, err := o.withDefaults().read()
	return err
}

// read checks all options, and returns the servers.
func (o Options) read() ([]server, error) {
	servers, err := parseServers(o.URL)
	return servers, errors.Join(
		err, checkPrefix(o.Prefix), checkStream(o.JetStream), checkCA(o.CAFile), checkCreds(o.CredsFile),
	)
}

// A Gate is the gateway that connects a store to NATS. It is run once.
type Gate struct {
	o        Options
	servers  []server // of the configuration
	found    []server // announced by their cluster; only Run uses it
	store    *notify.Store
	pub      *notify.Publisher
	anybody  calls.Client // each, for the rights are those of NATS
	claimer  *subscribers.Claimer
	listener *subscribers.Listener // of the bridges
	hinting  loops
	secret   *signing.Secret // that tokens are sealed with
	slots    slots
	waits    waits
	held     *semaphore.Weighted // bytes of the bodies of claims that waited
	reads    turns               // of inspections
	count    counters
	notices  notices
	link     link

	unheard     *outage.Many // hints of these shards cannot be received
	unconfirmed *outage.Many // broadcasts of these shards wait for NATS

	noReply, badReply             outage.Throttle
	badSettlement, lateSettlement outage.Throttle // without a reply subject

	running context.Context // ends with cut, when the gateway has stopped: calls that last end with it
	cut     context.CancelFunc

	made      time.Time
	identity  micro.ServiceIdentity
	endpoints []endpoint

	bridged shards // this process has bridged them before: a position was kept

	conn atomic.Pointer[connection] // nil: not connected

	reserved atomic.Pointer[map[string]bool] // subjects of pushes; nil: none

	mu      sync.Mutex
	quiet   bool          // no more requests are accepted
	service *service      // of the connection; nil: none
	change  chan struct{} // closed when conn changes
}

// New returns a gateway between a store and NATS. It does not connect yet. Errors:
// a joined notify.Fault for each invalid option, or whose file cannot be read.
func New(s *notify.Store, o Options) (*Gate, error) {
	o = o.withDefaults()
	servers, err := o.read()
	pub, noPublisher := notify.NewPublisher(s, notify.PublisherOptions{MaxBody: o.MaxBody})
	if err := errors.Join(err, noPublisher); err != nil {
		return nil, err
	}
	claimer := o.Claimer
	if claimer == nil {
		if claimer, err = subscribers.NewClaimer(s, subscribers.ClaimerOptions{Kind: "daemon", Version: o.Version, Logger: o.Logger}); err != nil {
			return nil, err
		}
	}
	listener, err := subscribers.NewListener(s, subscribers.ListenerOptions{Version: o.Version, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	if o.Service == nil {
		if o.Service, err = calls.NewService(s, nil, o.Logger); err != nil {
			return nil, err
		}
		o.Service.MaxBody = o.MaxBody
	}
	g := &Gate{
		o: o, servers: servers, store: s, pub: pub, claimer: claimer, listener: listener, anybody: calls.Anybody("nats"),
		secret:   signing.New(s),
		slots:    newSlots(),
		waits:    newWaits(),
		held:     semaphore.NewWeighted(maxHeld),
		reads:    make(turns, maxReads),
		made:     time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: serviceName, ID: rand.Text(), Version: serviceVersion, Metadata: map[string]string{"prefix": o.Prefix}},
	}
	g.link = link{log: o.Logger, urls: RedactURLs(o.URL), count: &g.count}
	g.notices = notices{log: o.Logger, kinds: make(map[string]*outage.Notice)}
	g.unheard = outage.NewMany(o.Logger, slog.LevelError, "cannot receive hints for nats; retrying", "receiving hints for nats again")
	const wait = "nats does not take broadcasts; they wait"
	g.unconfirmed = outage.NewMany(o.Logger, slog.LevelWarn, wait, "over: "+wait)
	g.change = make(chan struct{})
	g.running, g.cut = context.WithCancel(context.Background())
	g.endpoints = g.makeEndpoints()
	return g, nil
}

const (
	stopTimeout    = 5 * time.Second  // to finish requests, if Quiesce was not called before
	requestTimeout = 10 * time.Second // for one request
)

// Run connects to NATS and serves until ctx ends; then it finishes the requests
// under way, disconnects and returns nil. If NATS is away, or refuses the
// credentials, Run logs the change and tries again at most a second later.
func (g *Gate) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	if g.o.Claimer == nil {
		var claiming sync.WaitGroup
		claiming.Go(func() { _ = g.claimer.Run(ctx) }) // fails only where it ran before
		defer claiming.Wait()
	}
	var pause backoff.Pause
	for ctx.Err() == nil {
		c, err := g.connect(ctx)
		if err == nil {
			began := time.Now()
			err = g.serve(ctx, work, c)
			if time.Since(began) > backoff.Max {
				pause.Reset()
			}
		}
		if ctx.Err() == nil {
			g.link.down(err)
			pause.Wait(ctx)
		}
	}
	g.cut()
	g.slots.end()
	g.waits.end(context.Background()) // an ended wait makes one call at most
	return nil
}

// serve serves on one connection until ctx ends or the connection is lost, and
// returns why it was lost.
func (g *Gate) serve(ctx, work context.Context, c *connection) error {
	g.notices.reset()
	g.unconfirmed.Reset()
	err := g.open(work, c)
	if err == nil {
		err = c.announce(ctx)
	}
	if err == nil {
		g.link.up(c.server.String())
		select {
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(work, stopTimeout)
			defer cancel()
			g.Quiesce(stop)
		case <-c.closed.Done():
		}
	}
	g.mu.Lock()
	g.setConn(nil)
	service := g.service
	g.service = nil
	g.mu.Unlock()
	if service != nil {
		_ = service.stop() // fails only if the connection is lost, which stops it
	}
	if lost := g.hangUp(c); err == nil {
		err = lost
	}
	return err
}

// open makes a connection the current one, and accepts requests on it unless
// Quiesce was called.
func (g *Gate) open(work context.Context, c *connection) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setConn(c)
	if g.quiet {
		return nil
	}
	if err := g.addReturns(work, c.nc); err != nil {
		return err
	}
	service, err := g.addService(work, c)
	g.service = service
	return err
}

// setConn sets the current connection; nil: none. The mutex is held.
func (g *Gate) setConn(c *connection) {
	g.conn.Store(c)
	close(g.change)
	g.change = make(chan struct{})
}

// Quiesce stops accepting requests over NATS, and waits until those under way
// are answered, or ctx ends. The connection stays until Run ends.
func (g *Gate) Quiesce(ctx context.Context) {
	g.mu.Lock()
	g.quiet = true
	service := g.service
	g.mu.Unlock()
	c := g.conn.Load()
	if service != nil && c != nil && service.stop() == nil {
		g.waits.close() // now: requests that wait for a turn may use up the time
		c.drain(ctx)
	}
	g.waits.end(ctx)
	if c != nil {
		c.drain(ctx) // of what these claimed at last nobody may have received some
	}
	g.slots.wait(ctx)
}

// send sends a message on the current connection. It buffers nothing: the error
// is nats.ErrDisconnected if there is no connection.
func (g *Gate) send(m *nats.Msg) error {
	c := g.conn.Load()
	if c == nil {
		return nats.ErrDisconnected
	}
	return c.nc.PublishMsg(m)
}

// handedOut reports a message that was sent to a client.
func (g *Gate) handedOut(d subscribers.Delivery) {
	if g.o.OnClaimed != nil {
		g.o.OnClaimed(d, d.Late())
	}
}

// Alive returns an error that names the loops of the gateway that are stuck.
func (g *Gate) Alive() error {
	if err := errors.Join(g.hinting.alive(), g.listener.Alive()); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// maxPayload returns the most bytes, headers included, of a message; 0 without a connection.
func (g *Gate) maxPayload() int64 {
	c := g.conn.Load()
	if c == nil {
		return 0
	}
	return c.nc.MaxPayload()
}
