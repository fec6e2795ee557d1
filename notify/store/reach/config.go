package reach

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// DefaultURL is the URL of Redis if a Config has none.
const DefaultURL = "redis://127.0.0.1:6379"

// MaxWaitReplicas is the largest Config.WaitReplicas.
const MaxWaitReplicas = 16

// DefaultMemoryShare is the share of Redis's maxmemory, in percent, above which publishes are refused.
const DefaultMemoryShare = 90

// Config says which Redis holds the messages. The zero Config means DefaultURL and
// [script.DefaultPrefix].
type Config struct {
	URL          string // redis://, rediss:// (TLS) or unix://; several, separated by commas, name the nodes of a Redis Cluster or, with Master, its sentinels
	Master       string // name of the master that Redis Sentinel watches
	Username     string // overrides the user in URL
	PasswordFile string // path of a file with the password; overrides the password in URL
	CAFile       string // path of PEM certificates to trust, with rediss://
	CertFile     string // path of the client's PEM certificate, with rediss:// and KeyFile; both files are read again for each connection
	KeyFile      string // path of its PEM private key
	Prefix       string // of all keys and channels

	// Dial opens the connections to a URL, such as through a tunnel or a proxy; with rediss:// TLS follows over each. It gets tcp and
	// HOST:PORT, or unix and the path, and a context with the deadline of the attempt. Nil: as the URL says.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Shards is how many shards the store has: a power of two up to MaxShards. It is set
	// by the first process that uses the store, and cannot be changed. Zero: as many as the
	// store has, and one if it is new. In a Redis Cluster the shards spread over the masters.
	Shards int

	SentinelUsername     string // of the sentinels, with Master
	SentinelPasswordFile string // path of a file with their password, which is not Redis's

	// WaitReplicas is how many replicas must confirm a publish, a cancel, a
	// reschedule, an acknowledgement and the like before the call returns. Zero: none,
	// so a failover loses calls that the new master did not have yet.
	WaitReplicas int

	// MemoryShare is the share of Redis's maxmemory, in percent, above which
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

// Only a test binary changes these, as ReplicaWait.
var (
	AnswerWait     = callTimeout               // for which a call waits for its answer
	PoolWait       = callTimeout + time.Second // for which a call may wait for one of the connections, while others have all
	BackgroundWait = dialTimeout + callTimeout // how long a task in the background may take
)

// sentinelOptions returns the options of a client for each sentinel.
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

// Check returns a joined Fault for each setting that is wrong, or whose file cannot be read.
// It opens no connection.
func (c Config) Check() error {
	_, err := c.read()
	return err
}

// read checks all settings, and returns the options of the client.
func (c Config) read() (*redis.UniversalOptions, error) {
	o, err := c.options()
	faults := []error{
		err, c.checkDial(), fault.Within("wait_replicas", "number of replicas to wait for", c.WaitReplicas, 0, MaxWaitReplicas),
		script.CheckPrefix(cmp.Or(c.Prefix, script.DefaultPrefix)),
	}
	if c.Shards != 0 {
		faults = append(faults, CheckShards(c.Shards))
	}
	_, err = memoryShare(c.MemoryShare)
	return o, errors.Join(append(faults, err)...)
}

// checkDial returns a Fault of a Dial beside what names several servers.
func (c Config) checkDial() error {
	switch {
	case c.Dial == nil:
		return nil
	case c.Master != "":
		return fault.New("dial", "dial: it leads to one Redis, and the sentinels of a master name others; leave one of the two out")
	case strings.Contains(c.URL, ","):
		return fault.New("dial", "dial: it leads to one Redis, and the servers of a Cluster name others; leave it out, or give one URL")
	}
	return nil
}

func (c Config) options() (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{
		MasterName:            c.Master,
		Protocol:              2,
		MaxRetries:            -1,
		MaxRedirects:          3,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           AnswerWait,
		WriteTimeout:          AnswerWait,
		PoolTimeout:           PoolWait,
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
		o.TLSConfig.ServerName = "" // empty means the host that is dialed: each address has its own
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
	if err := errors.Join(c.readPassword(o), c.readSentinels(o), c.readCA(o), c.readCertificate(o)); err != nil {
		return nil, err
	}
	return o, nil
}

// readURLs sets in o what the URLs say. The error joins a Fault for each that is wrong.
func (c Config) readURLs(o *redis.UniversalOptions) error {
	var faults []error
	for one := range strings.SplitSeq(cmp.Or(c.URL, DefaultURL), ",") {
		one = strings.TrimSpace(one)
		if bareAddress.MatchString(one) && !strings.Contains(c.URL, "@") { // else it may be a piece of a password
			faults = append(faults, fault.New("url", "redis URL %s: it has no scheme; write redis://%s", one, one))
			continue
		}
		faults = append(faults, readURL(o, one))
	}
	return errors.Join(faults...)
}

// readURL sets in o what a URL says.
func readURL(o *redis.UniversalOptions, raw string) error {
	shown := redactURL(raw)
	parsed, err := redis.ParseURL(raw)
	if err != nil || shown == unreadable { // go-redis may take an unreadable URL for localhost
		return fault.New("url", "redis URL %s: %s; write redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH", shown, urlFault(raw, err))
	}
	if option := unusedOption(raw); option != "" {
		return fault.New("url", "redis URL %s: its option %s is not used; leave it out", shown, option)
	}
	if parsed.Network == "tcp" {
		_, port, _ := net.SplitHostPort(parsed.Addr)
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
			return fault.New("url", "redis URL %s: its port is %s; use 1 to %d", shown, port, math.MaxUint16)
		}
	}
	o.Addrs = append(o.Addrs, parsed.Addr)
	o.Username, o.Password, o.DB, o.TLSConfig = parsed.Username, parsed.Password, parsed.DB, parsed.TLSConfig
	return nil
}

// readPassword sets the password from its file in o.
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

// readCA makes o trust the certificates in the file.
func (c Config) readCA(o *redis.UniversalOptions) error {
	if c.CAFile == "" {
		return nil
	}
	pem, err := regular.Read(c.CAFile)
	if err != nil {
		return unread("ca_file", "redis CA file", err)
	}
	if o.TLSConfig == nil {
		return fault.New("ca_file", "redis CA file: the URL does not use TLS; write rediss:// instead of redis://")
	}
	o.TLSConfig.RootCAs = x509.NewCertPool()
	if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
		return fault.New("ca_file", "redis CA file %s: it holds no PEM certificate", c.CAFile)
	}
	return nil
}

// unread returns the Fault of a field whose file cannot be read.
func unread(field, what string, err error) error {
	return &fault.Fault{Field: field, Err: fmt.Errorf("read %s: %w", what, err)}
}

// readSentinels sets the user and password for the sentinels in o.
func (c Config) readSentinels(o *redis.UniversalOptions) (err error) {
	switch {
	case c.SentinelUsername == "" && c.SentinelPasswordFile == "":
		return nil
	case c.Master == "":
		return fault.New("sentinel_password_file", "user or password of the sentinels: no master is named; name the one that they watch, or leave this out")
	case c.SentinelPasswordFile == "":
		return fault.New("sentinel_password_file", "user of the sentinels: it has no password; name its file, or leave the user out")
	}
	o.SentinelUsername = c.SentinelUsername
	if o.SentinelPassword, err = passwordOf(c.SentinelPasswordFile); err != nil {
		return unread("sentinel_password_file", "password file of the sentinels", err)
	}
	return nil
}

// passwordOf returns the content of a file without the newline at its end.
func passwordOf(file string) (string, error) {
	password, err := regular.Read(file)
	return strings.TrimRight(string(password), "\r\n"), err
}

// readCertificate makes o present the certificate to Redis. It is read again at
// each handshake, since it may have been renewed.
func (c Config) readCertificate(o *redis.UniversalOptions) error {
	switch {
	case c.CertFile == "" && c.KeyFile == "":
		return nil
	case c.CertFile == "" || c.KeyFile == "":
		return fault.New("cert_file", "redis certificate: a certificate and its key go together; name both files, or none")
	case o.TLSConfig == nil:
		return fault.New("cert_file", "redis certificate: the URL does not use TLS; write rediss:// instead of redis://")
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

// bareAddress matches HOST or HOST:PORT, perhaps with the number of a database.
var bareAddress = regexp.MustCompile(`^([\w.-]+|\[[[:xdigit:]:]+\])(:\d+)?(/\d*)?$`)

// unreadable is shown instead of a URL in which the password may be anywhere.
const unreadable = "[unreadable]"

// redactURL returns a URL without its password and its options, fit to be shown.
// In a mistyped URL the password may be in the wrong place, such as with an @
// behind the host, no // in front of it, or a comma in it: then redactURL returns unreadable.
func redactURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme == "" || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return unreadable
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// RedactURLs returns the comma-separated URLs of a Config without passwords, fit to be shown.
func RedactURLs(urls string) string {
	parts := strings.Split(urls, ",")
	for i, one := range parts {
		parts[i] = redactURL(one)
	}
	return strings.Join(parts, ",")
}

// unusedOption returns an option of a URL that has no effect, empty if there is none.
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

// memoryShare returns a share in percent, or an ErrInvalid.
func memoryShare(percent int) (int, error) {
	if percent == 0 {
		percent = DefaultMemoryShare
	}
	if percent < 1 || percent > 100 {
		return 0, fault.New("memory_share", "memory share %d%%: use 1 to 100", percent)
	}
	return percent, nil
}
