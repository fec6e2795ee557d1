package natsgate

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/regular"
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

// CheckSubject returns a notify.Fault for a subject under the prefix, or for one whose last token > may stand for such: there are
// requests, and what the gateway sends.
func (o Options) CheckSubject(subject string) error {
	prefix := cmp.Or(o.Prefix, DefaultPrefix)
	before, whole := strings.CutSuffix(subject, ">")
	if whole && strings.HasPrefix(prefix, before) {
		return fault.New("to", "to nats:%s: a topic could make it one of the subjects under %s, which are Bellhop's own; use another", subject, prefix)
	}
	if strings.HasPrefix(subject+".", prefix+".") {
		return fault.New("to", "to nats:%s: subjects under %s are Bellhop's own; use another", subject, prefix)
	}
	return nil
}

// checkCA returns the fault of a file of certificates, if one is named.
func checkCA(file string) error {
	if file == "" {
		return nil
	}
	_, err := readCA(file)
	return err
}

func readCA(file string) (*x509.CertPool, error) {
	pem, err := regular.Read(file)
	if err != nil {
		return nil, &notify.Fault{Field: "ca_file", Err: fmt.Errorf("read nats CA file: %w", err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fault.New("ca_file", "nats CA file %s: it holds no PEM certificate", file)
	}
	return pool, nil
}

// checkCreds returns the fault of a credentials file, if one is named.
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
		return fault.New("creds_file", "nats credentials file %s: it holds no JWT and seed of a user; write one with nsc generate creds", file)
	}
	return nil
}
