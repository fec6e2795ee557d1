package natsgate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store"
)

// Timeouts of a connection to NATS.
const (
	connectTimeout = 2 * time.Second
	writeTimeout   = 3 * time.Second
	pingInterval   = time.Second // a silent cut is noticed after three of them
	pingsOut       = 2
)

// A line is one connection to NATS. It is not made anew by itself: the gate
// makes another, so that nothing is kept for later, nobody waits while NATS is
// dialled, and why it is away is known each time.
type line struct {
	conn   *nats.Conn
	server server
	js     jetstream.JetStream // of the bridge; nil before it was used
	fits   bool                // the stream was looked after, and refused nothing since; only the bridge uses it
	closed chan struct{}       // closed when the connection is lost or closed, and its last callback has run

	mu     sync.Mutex
	denied map[string]bool // what deliveries need and NATS does not permit
}

// connect connects to one of the servers. The error says of each why not.
func (g *Gate) connect(ctx context.Context) (*line, error) {
	var faults error
	servers := slices.Concat(g.servers, g.found)
	for _, i := range rand.Perm(len(servers)) {
		l, err := g.connectTo(ctx, servers[i])
		switch {
		case err == nil:
			return l, nil
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

func (g *Gate) connectTo(ctx context.Context, s server) (*line, error) {
	l := &line{server: s, closed: make(chan struct{})}
	d := &dialer{ctx: ctx, release: func() bool { return true }}
	config, err := g.tlsConfig(s)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{
		nats.Name(g.o.Name),
		nats.NoReconnect(),
		nats.SetCustomDialer(d),
		nats.SkipHostLookup(), // the dialer does it, within its timeout
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOut),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(), // which here closes: half of a message may have been written
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { g.asyncError(l, sub, err) }),
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
	l.conn, err = nats.Connect(s.url.String(), options...)
	d.release()
	return l, err
}

// tlsConfig returns how to trust a server.
func (g *Gate) tlsConfig(s server) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name}
	if g.o.CAFile == "" {
		return config, nil
	}
	pool, err := readCA(g.o.CAFile)
	config.RootCAs = pool
	return config, err
}

func readCA(file string) (*x509.CertPool, error) {
	pem, err := regular.Read(file)
	if err != nil {
		return nil, &notify.Fault{Field: "ca_file", Err: fmt.Errorf("read nats CA file: %w", err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, store.Faultf("ca_file", "nats CA file %s: it holds no PEM certificate", file)
	}
	return pool, nil
}

// checkCA reports what is wrong with a file of certificates, if one is named.
func checkCA(file string) error {
	if file == "" {
		return nil
	}
	_, err := readCA(file)
	return err
}

// checkCreds reports what is wrong with a credentials file, if one is named.
func checkCreds(file string) error {
	if file == "" {
		return nil
	}
	text, err := regular.Read(file)
	if err != nil {
		return &notify.Fault{Field: "creds_file", Err: fmt.Errorf("read nats credentials file: %w", err)}
	}
	_, errJWT := nkeys.ParseDecoratedJWT(text)
	_, errSeed := nkeys.ParseDecoratedUserNKey(text)
	if errJWT != nil || errSeed != nil {
		return store.Faultf("creds_file", "nats credentials file %s: it holds no JWT and seed of a user; write one with nsc generate creds", file)
	}
	return nil
}

// A dialer dials for nats.go, which knows no contexts: when ctx ends, so does
// what nats.go waits for, until release is called.
type dialer struct {
	ctx     context.Context
	release func() bool
}

// Dial connects, within connectTimeout for all addresses that a name has.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address)
	if err == nil {
		d.release = context.AfterFunc(d.ctx, func() { conn.Close() })
	}
	return conn, err
}

// drain waits until everything that was received has been handed over, or ctx
// ends. It is called when the subscriptions are ended.
func (l *line) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if l.conn.FlushWithContext(ctx) != nil {
		return
	}
	handed := make(chan struct{})
	if l.conn.Barrier(func() { close(handed) }) != nil {
		return
	}
	select {
	case <-handed:
	case <-l.closed:
	case <-ctx.Done():
	}
}

// hangUp closes a connection, if it is not lost yet, and returns why it was
// lost. What its cluster told of other servers is remembered.
func (g *Gate) hangUp(l *line) error {
	l.conn.Close()
	<-l.closed
	g.discover(l)
	if err := l.conn.LastError(); err != nil {
		return fmt.Errorf("%s: %w", l.server, err)
	}
	return fmt.Errorf("%s: %w", l.server, nats.ErrConnectionClosed)
}

// discover remembers the other servers that a cluster told of, with the user of
// the one that told.
func (g *Gate) discover(l *line) {
	g.found = nil
	known := make(map[string]bool)
	for _, s := range g.servers {
		known[s.url.Host] = true
	}
	for _, raw := range l.conn.DiscoveredServers() {
		u, err := url.Parse(raw)
		if err != nil || known[u.Host] {
			continue
		}
		u.User = l.server.url.User
		s := server{url: u}
		if net.ParseIP(u.Hostname()) != nil {
			s.name = l.server.certificate()
		}
		g.found = append(g.found, s)
	}
}

// certificate returns the name that a server's certificate has.
func (s server) certificate() string {
	if s.name != "" {
		return s.name
	}
	return s.url.Hostname()
}

// refusals are what a server says that refuses the credentials.
var refusals = []string{
	nats.AUTHORIZATION_ERR, nats.AUTHENTICATION_EXPIRED_ERR, nats.AUTHENTICATION_REVOKED_ERR, nats.ACCOUNT_AUTHENTICATION_EXPIRED_ERR,
}

// refused reports whether a server refused the credentials.
func refused(err error) bool {
	text := strings.ToLower(err.Error())
	for _, sign := range refusals {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// untrusted reports whether a secure connection could not be made.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.Is(err, nats.ErrTLS) || errors.Is(err, nats.ErrSecureConnWanted)
}
