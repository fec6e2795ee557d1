package natsgate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/regular"
)

// Ping connects to NATS as a Gate with these options does, hangs up, and returns which
// server answered. Errors: a notify.ErrInvalid, or each server with its fault, for which
// LockedOut and Untrusted know the kind.
func Ping(ctx context.Context, o Options) (string, error) {
	o = o.withDefaults()
	servers, err := o.read()
	if err != nil {
		return "", err
	}
	g := &Gate{o: o, servers: servers}
	g.link = link{log: slog.New(slog.DiscardHandler), count: &g.count}
	c, err := g.connect(ctx)
	if err != nil {
		return "", err
	}
	c.nc.Close()
	<-c.closed.Done()
	return c.server.String(), nil
}

// Dial connects to NATS in place of Run, to deliver and nothing else, until hangUp is called. The error is as that of Ping.
func (g *Gate) Dial(ctx context.Context) (hangUp func(), err error) {
	c, err := g.connect(ctx)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setConn(c)
	return func() { _ = g.hangUp(c) }, nil // the error is why the connection ended
}

// connect connects to one of the servers. The error names each server with its fault.
func (g *Gate) connect(ctx context.Context) (*connection, error) {
	var faults error
	servers := slices.Concat(g.servers, g.found)
	for _, i := range rand.Perm(len(servers)) {
		c, err := g.connectTo(ctx, servers[i])
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, err
		case faults == nil:
			faults = fmt.Errorf("%s: %w", servers[i], err)
		default:
			faults = fmt.Errorf("%w; %s: %w", faults, servers[i], err)
		}
	}
	g.count.connectFailures.Add(1)
	return nil, faults
}

func (g *Gate) connectTo(ctx context.Context, s server) (*connection, error) {
	c := &connection{server: s}
	d := &dialer{ctx: ctx, release: func() bool { return true }}
	config, err := g.tlsConfig(s)
	if err != nil {
		return nil, err
	}
	closed, end := context.WithCancel(context.Background())
	c.closed = closed
	options := []nats.Option{
		nats.Name(g.o.Name),
		nats.NoReconnect(),
		nats.SetCustomDialer(d),
		nats.SkipHostLookup(), // the dialer does it, within its timeout
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOut),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(), // closes, since it does not reconnect: half of a message may have been written
		nats.ClosedHandler(func(*nats.Conn) { end() }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { g.asyncError(c, sub, err) }),
		func(o *nats.Options) error {
			o.TLSConfig, o.Secure = config, s.url.Scheme == "tls" || g.o.CAFile != ""
			return nil
		},
	}
	if g.o.CredsFile != "" {
		creds, err := regular.Read(g.o.CredsFile)
		if err != nil {
			return nil, fmt.Errorf("read nats credentials file: %w", err)
		}
		options = append(options, nats.UserCredentialBytes(creds))
	}
	c.nc, err = nats.Connect(s.url.String(), options...)
	d.release()
	if errors.Is(err, nats.ErrNoServers) && d.err != nil {
		err = d.err
	}
	return c, err
}

// tlsConfig returns the configuration of TLS for a server.
func (g *Gate) tlsConfig(s server) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name}
	if g.o.CAFile == "" {
		return config, nil
	}
	pool, err := readCA(g.o.CAFile)
	config.RootCAs = pool
	return config, err
}

// A dialer dials for nats.go, which takes no context: until release is called,
// the end of ctx closes the connection that nats.go waits for.
type dialer struct {
	ctx     context.Context
	release func() bool
	err     error // which nats.go does not return if the connection was refused
}

// Dial connects within connectTimeout, which is for all addresses of a name together.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address)
	if d.err = err; err == nil {
		d.release = context.AfterFunc(d.ctx, func() { conn.Close() })
	}
	return conn, err
}

// hangUp closes a connection, if it is not lost yet, and returns why it was
// lost. It keeps the servers that its cluster announced.
func (g *Gate) hangUp(c *connection) error {
	c.nc.Close()
	<-c.closed.Done()
	g.discover(c)
	if err := c.nc.LastError(); err != nil {
		return fmt.Errorf("%s: %w", c.server, err)
	}
	return fmt.Errorf("%s: %w", c.server, nats.ErrConnectionClosed)
}

// discover keeps the other servers that a cluster announced, with the user of
// the server that announced them.
func (g *Gate) discover(c *connection) {
	g.found = nil
	known := make(map[string]bool)
	for _, s := range g.servers {
		known[s.url.Host] = true
	}
	for _, raw := range c.nc.DiscoveredServers() {
		u, err := url.Parse(raw)
		if err != nil || known[u.Host] {
			continue
		}
		u.User = c.server.url.User
		s := server{url: u}
		if net.ParseIP(u.Hostname()) != nil {
			s.name = c.server.certificate()
		}
		g.found = append(g.found, s)
	}
}

// asyncError counts the errors that a connection reports outside of calls, and
// logs the first of each kind.
func (g *Gate) asyncError(c *connection, sub *nats.Subscription, err error) {
	var subject string
	if sub != nil {
		subject = sub.Subject
	}
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		g.count.floods.Add(1)
		g.notices.begin("requests come faster than they are handled; some are lost", err, subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		g.count.permissions.Add(1)
		c.deny(err)
		g.notices.begin("nats does not permit a subject", err, subject)
	default:
		g.count.faults.Add(1)
		g.o.Logger.Debug("nats client", "error", err) // it ends the connection, which is logged then
	}
}
