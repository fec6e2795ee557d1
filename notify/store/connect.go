package store

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bellhopd/bellhop/notify/regular"
)

// DefaultURL is the Redis that is used when none is named.
const DefaultURL = "redis://127.0.0.1:6379"

// Config says which Redis holds the messages. The zero Config is DefaultURL
// and DefaultPrefix.
type Config struct {
	URL          string // redis://, rediss:// (TLS) or unix://; several, separated by commas, name a Redis Cluster or, with Master, its sentinels
	Master       string // the name of the master that Redis Sentinel watches
	Username     string // overrides the one in URL
	PasswordFile string // holds the password; overrides the one in URL
	CAFile       string // PEM certificates to trust, with rediss://
	CertFile     string // PEM certificate to show, with rediss:// and KeyFile; both are read again for each connection
	KeyFile      string // its PEM private key
	Prefix       string // of all keys and channels

	SentinelUsername     string // of the sentinels, with Master
	SentinelPasswordFile string // holds their password, which is none of Redis's

	// WaitReplicas is how many replicas must have what was published, cancelled,
	// rescheduled, acknowledged and the like before that is answered. Zero: none,
	// so that a failover loses what the replica did not have yet.
	WaitReplicas int

	// MemoryShare is the share of Redis's maxmemory, in percent, from which on
	// publishes are refused with ErrFull. Zero: DefaultMemoryShare; 100: only Redis
	// itself refuses.
	MemoryShare int
}

// Timeouts of a connection to Redis.
const (
	dialTimeout        = 2 * time.Second
	clusterDialTimeout = 500 * time.Millisecond // a node that is gone holds up the search for the others
	callTimeout        = 3 * time.Second
)

// connect makes the client that Bellhop wants: one that never repeats a call by
// itself, because a script that was applied and whose answer was lost would be
// applied again. With it go the sentinels that it asks for the master.
func (s *Store) connect(o *redis.UniversalOptions) {
	o.Dialer = s.lines.dialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	o.OnConnect = s.onConnect
	switch {
	case o.MasterName != "":
		s.client = redis.NewFailoverClient(o.Failover())
		s.sentinels = sentinels{master: o.MasterName, options: sentinelOptions(o), lines: &s.lines}
	case len(o.Addrs) > 1:
		o.DialTimeout = clusterDialTimeout
		s.client = redis.NewClusterClient(o.Cluster())
	default:
		simple := o.Simple()
		if strings.HasPrefix(simple.Addr, "/") {
			simple.Network = "unix"
		}
		s.client = redis.NewClient(simple)
	}
}

// sentinelOptions returns how each sentinel is called.
func sentinelOptions(o *redis.UniversalOptions) []*redis.Options {
	all := make([]*redis.Options, len(o.Addrs))
	for i, address := range o.Addrs {
		all[i] = &redis.Options{
			Addr: address, Dialer: o.Dialer, Protocol: 2, MaxRetries: -1, DialerRetries: 1,
			Username: o.SentinelUsername, Password: o.SentinelPassword,
			DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
			ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
		}
	}
	return all
}

func (c Config) options() (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{
		MasterName:            c.Master,
		Protocol:              2,
		MaxRetries:            -1,
		MaxRedirects:          3,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           callTimeout,
		WriteTimeout:          callTimeout,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		PipelinePoolSize:      -1, // the few pipelines there are share the other connections
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	if err := c.readURLs(o); err != nil {
		return nil, errors.Join(err, c.readPassword(o))
	}
	if c.Username != "" {
		o.Username = c.Username
	}
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // the host that is dialed: each has its own
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
	if err := errors.Join(c.readPassword(o), c.readSentinels(o), c.readCA(o), c.readCertificate(o)); err != nil {
		return nil, err
	}
	return o, nil
}

// readURLs puts into o what the URLs say.
func (c Config) readURLs(o *redis.UniversalOptions) error {
	for one := range strings.SplitSeq(cmp.Or(c.URL, DefaultURL), ",") {
		parsed, err := redis.ParseURL(strings.TrimSpace(one))
		if err != nil || redactURL(one) == unreadable { // which go-redis may take for localhost
			return Faultf("url", "redis URL %s: %s; write redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH", redactURL(one), urlFault(one, err))
		}
		if option := unusedOption(one); option != "" {
			return Faultf("url", "redis URL %s: its option %s is not used; leave it out", redactURL(one), option)
		}
		o.Addrs = append(o.Addrs, parsed.Addr)
		o.Username, o.Password, o.DB, o.TLSConfig = parsed.Username, parsed.Password, parsed.DB, parsed.TLSConfig
	}
	return nil
}

// readPassword puts the password of the file into o.
func (c Config) readPassword(o *redis.UniversalOptions) error {
	if c.PasswordFile == "" {
		return nil
	}
	password, err := passwordOf(c.PasswordFile)
	if err != nil {
		return unread("password_file", "redis password file", err)
	}
	o.Password = password
	return nil
}

// readCA has the certificates of the file trusted.
func (c Config) readCA(o *redis.UniversalOptions) error {
	if c.CAFile == "" {
		return nil
	}
	pem, err := regular.Read(c.CAFile)
	if err != nil {
		return unread("ca_file", "redis CA file", err)
	}
	if o.TLSConfig == nil {
		return Faultf("ca_file", "redis CA file: the URL does not use TLS; write rediss:// instead of redis://")
	}
	o.TLSConfig.RootCAs = x509.NewCertPool()
	if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
		return Faultf("ca_file", "redis CA file %s: it holds no PEM certificate", c.CAFile)
	}
	return nil
}

// unread returns the Fault of a field whose file cannot be read.
func unread(field, what string, err error) error {
	return &Fault{Field: field, Err: fmt.Errorf("read %s: %w", what, err)}
}

// readSentinels puts into o as whom the sentinels are asked.
func (c Config) readSentinels(o *redis.UniversalOptions) (err error) {
	switch {
	case c.SentinelUsername == "" && c.SentinelPasswordFile == "":
		return nil
	case c.Master == "":
		return Faultf("sentinel_password_file", "user or password of the sentinels: no master is named; name the one that they watch, or leave this out")
	case c.SentinelPasswordFile == "":
		return Faultf("sentinel_password_file", "user of the sentinels: it has no password; name its file, or leave the user out")
	}
	o.SentinelUsername = c.SentinelUsername
	if o.SentinelPassword, err = passwordOf(c.SentinelPasswordFile); err != nil {
		return unread("sentinel_password_file", "password file of the sentinels", err)
	}
	return nil
}

// passwordOf returns what stands in a file, without the end of the line.
func passwordOf(file string) (string, error) {
	password, err := regular.Read(file)
	return strings.TrimRight(string(password), "\r\n"), err
}

// readCertificate has the certificate shown to Redis. It is read at each
// handshake, since it may have been renewed.
func (c Config) readCertificate(o *redis.UniversalOptions) error {
	switch {
	case c.CertFile == "" && c.KeyFile == "":
		return nil
	case c.CertFile == "" || c.KeyFile == "":
		return Faultf("cert_file", "redis certificate: a certificate and its key go together; name both files, or none")
	case o.TLSConfig == nil:
		return Faultf("cert_file", "redis certificate: the URL does not use TLS; write rediss:// instead of redis://")
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := regular.ReadKeyPair(c.CertFile, c.KeyFile)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return unread("cert_file", "redis certificate and key", err)
	}
	o.TLSConfig.GetClientCertificate = load
	return nil
}

// unreadable is what is shown of a URL in which a password may stand anywhere.
const unreadable = "[unreadable]"

// redactURL returns a URL fit to be shown: without its password and its
// options. In one that is mistyped the password may be in the wrong place: an @
// behind the host, or no // in front of it.
func redactURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return unreadable
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// RedactURLs returns the comma-separated URLs of a Config fit to be shown: without passwords.
func RedactURLs(urls string) string {
	parts := strings.Split(urls, ",")
	for i, one := range parts {
		parts[i] = redactURL(one)
	}
	return strings.Join(parts, ",")
}

// unusedOption returns an option of a URL that has no effect, if there is one.
func unusedOption(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return ""
	}
	for name := range u.Query() {
		if name != "db" {
			return name
		}
	}
	return ""
}

// urlFault says what is wrong with a URL without repeating it, since it may hold a password.
func urlFault(raw string, err error) string {
	var fault *url.Error
	var address *net.AddrError
	switch {
	case errors.As(err, &fault) && errors.As(fault.Err, &address):
		return address.Err
	case fault != nil, redactURL(raw) == unreadable:
		return "it is not a URL"
	}
	return strings.TrimPrefix(err.Error(), "redis: ")
}
