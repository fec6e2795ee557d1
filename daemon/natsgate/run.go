package natsgate

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/outage"
	"github.com/bellhopd/bellhop/subscribers"
)

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
		slots:    newPlaces(maxConcurrent),
		waits:    newPlaces(maxWaits),
		held:     semaphore.NewWeighted(maxHeld),
		reads:    make(turns, maxReads),
		made:     time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: serviceName, ID: rand.Text(), Version: serviceVersion, Metadata: map[string]string{"prefix": o.Prefix}},
	}
	g.link = link{log: o.Logger, urls: RedactURLs(o.URL), count: &g.count}
	g.notices = notices{log: o.Logger, kinds: make(map[string]*outage.Notice)}
	g.unheard = outage.NewMany(o.Logger, slog.LevelError, "cannot receive hints for nats; retrying", "receiving hints for nats again").Patient()
	const wait = "nats does not take broadcasts; they wait"
	g.unconfirmed = outage.NewMany(o.Logger, slog.LevelWarn, wait, "over: "+wait)
	g.change = make(chan struct{})
	g.running, g.cut = context.WithCancel(context.Background())
	g.endpoints = g.makeEndpoints()
	return g, nil
}

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
	g.slots.close()
	g.slots.wait(context.Background())
	g.waits.close()
	g.waits.wait(context.Background()) // an ended wait makes one call at most
	return nil
}

// Term sends wake-ups, beats, deaths and broadcasts of a shard to NATS, while this process's carrier is elected for the
// shard: so one of many daemons sends. It is made for carrier.Options.OnTerm, returns
// when ctx has ended, and needs Run to run beside it. Terms of several shards run side by
// side.
func (g *Gate) Term(ctx context.Context, elected carrier.Term) {
	shards, err := g.store.Shards(ctx)
	if err != nil {
		return // ctx ended: who was elected knows how many there are
	}
	t := &term{Gate: g, Term: elected, shards: len(shards)}
	var all sync.WaitGroup
	all.Go(func() { t.announceElection(ctx) })
	all.Go(func() { t.hint(ctx) })
	all.Go(func() { t.bridge(ctx) })
	all.Wait()
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
	g.waits.close()
	g.waits.wait(ctx)
	if c != nil {
		c.drain(ctx) // of what these claimed at last nobody may have received some
	}
	g.slots.wait(ctx)
}
