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
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellhopd/bellhop/notify/regular"
)

// Timeouts of a connection to NATS.
const (
	connectTimeout = 2 * time.Second
	writeTimeout   = 3 * time.Second
	pingInterval   = time.Second // a silently cut connection is noticed after three of them
	pingsOut       = 2
)

// A connection is one connection to NATS. The client does not reconnect it: the
// gateway makes another, so that nothing is buffered, no call waits while NATS is
// dialled, and each failure to connect has its reason.
type connection struct {
	nc     *nats.Conn
	server server
	closed context.Context // ends when the connection is lost or closed, and its last callback has run

	checking    sync.Mutex          // held while a bridge checks the stream, for all
	js          jetstream.JetStream // of the bridges; nil before its first use
	fits        bool                // the stream was checked, and has refused nothing since
	discardsNew bool                // the stream refuses what does not fit, when it was checked last

	subscribing sync.Mutex // held while deliveries subscribe to their answers
	answers     *answers   // nil before the first delivery

	mu     sync.Mutex
	denied map[string]bool // subjects that deliveries need and NATS does not permit
}

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

// announce waits until the server knows all subscriptions, or ctx ends: from then
// on no request is answered with "no responders".
func (c *connection) announce(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.nc.FlushWithContext(limited)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// drain waits until all received messages have been passed to their callbacks,
// or ctx ends. It is called when the subscriptions are ended.
func (c *connection) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if c.nc.FlushWithContext(ctx) != nil {
		return
	}
	drained := make(chan struct{})
	if c.nc.Barrier(func() { close(drained) }) != nil {
		return
	}
	select {
	case <-drained:
	case <-c.closed.Done():
	case <-ctx.Done():
	}
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

// certificate returns the name in a server's certificate.
func (s server) certificate() string {
	if s.name != "" {
		return s.name
	}
	return s.url.Hostname()
}

// refusals are the errors by which a server refuses the credentials.
var refusals = []string{
	nats.AUTHORIZATION_ERR, nats.AUTHENTICATION_EXPIRED_ERR, nats.AUTHENTICATION_REVOKED_ERR, nats.ACCOUNT_AUTHENTICATION_EXPIRED_ERR,
}

// LockedOut reports whether a server refused the credentials.
func LockedOut(err error) bool {
	text := strings.ToLower(err.Error())
	for _, sign := range refusals {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Untrusted reports whether a secure connection could not be made.
func Untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.Is(err, nats.ErrTLS) || errors.Is(err, nats.ErrSecureConnWanted)
}
