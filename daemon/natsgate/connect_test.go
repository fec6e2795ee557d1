package natsgate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const secret = "geheim"

// watch returns a gateway and its log.
func watch(t testing.TB, o natsgate.Options) (*natsgate.Gate, *logBuffer) {
	t.Helper()
	var log logBuffer
	o.Logger = log.logger()
	gate, _ := newGate(t, storetest.Open(t), o)
	return gate, &log
}

// wantLog waits until each text was logged so often, and checks that it was not logged
// more often, and that no secret was.
func wantLog(t testing.TB, log *logBuffer, times map[string]int) {
	t.Helper()
	for text, want := range times {
		storetest.Eventually(t, fmt.Sprintf("%q is logged", text), func() bool { return log.Count(text) >= want })
		if got := log.Count(text); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, log)
		}
	}
	if log.Count(secret) > 0 {
		t.Errorf("a secret is logged:\n%s", log)
	}
}

// wantNoFaults checks that nothing but a slow Redis was logged as an error.
func wantNoFaults(t testing.TB, log *logBuffer) {
	t.Helper()
	if all := log.faults(); len(all) > 0 {
		t.Errorf("errors are logged: %q", all)
	}
}

// linkTexts are what is logged of each state of the connection.
var linkTexts = map[string]string{
	"connected to nats": "up", "nats is away; retrying": "away",
	"nats refuses the credentials; retrying": "refused", "no secure connection to nats; retrying": "untrusted",
}

// links returns the states of the connection that were logged, in order.
func (b *logBuffer) links() (states []string) {
	for line := range strings.Lines(b.String()) {
		for text, state := range linkTexts {
			if strings.Contains(line, text) {
				states = append(states, state)
			}
		}
	}
	return states
}

// wantLinks waits until states of the connection were logged in this order, and checks that
// none was logged again before another one, however many tries to connect failed. Others
// may stand between: a server that restarts is away for as many tries as it takes.
func wantLinks(t testing.TB, log *logBuffer, want ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprint(want, " are logged"), func() bool {
		next := 0
		for _, state := range log.links() {
			if next < len(want) && state == want[next] {
				next++
			}
		}
		return next == len(want)
	})
	if got := log.links(); len(slices.Compact(slices.Clone(got))) < len(got) || log.Count(secret) > 0 {
		t.Errorf("a state is logged twice in a row, or a secret:\n%s", log)
	}
}

// wantOncePerConnection waits until a text was logged, and checks that it was not logged
// more often than the gateway connected.
func wantOncePerConnection(t testing.TB, gate *natsgate.Gate, log *logBuffer, text string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%q is logged", text), func() bool { return log.Count(text) > 0 })
	if got, most := log.Count(text), gate.Stats().Connects; int64(got) > most || log.Count(secret) > 0 {
		t.Errorf("%q is logged %d times on %d connections, or a secret is:\n%s", text, got, most, log)
	}
}

// failures waits until a gateway failed to connect so many more times.
func failures(t testing.TB, gate *natsgate.Gate, more int64) {
	t.Helper()
	before := gate.Stats().ConnectFailures
	storetest.Eventually(t, "the gate tries to connect", func() bool { return gate.Stats().ConnectFailures >= before+more })
}

func TestAwayAtStartAndRestarted(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	url := strings.Replace(n.ClientURL(), "//", "//"+secret+"@", 1)
	n.stop()
	gate, log := watch(t, natsgate.Options{URL: url})
	failures(t, gate, 3)
	n.start(nil)
	connected(t, gate)
	serving(t, n.connect())
	for range 2 {
		n.stop()
		failures(t, gate, 3)
		n.start(nil)
		connected(t, gate)
		serving(t, n.connect())
	}
	wantLinks(t, log, "away", "up", "away", "up", "away", "up")
	if log.Count("connected to nats again") < 3 || len(log.faults()) > 0 {
		t.Errorf("logged:\n%s", log)
	}
	if s := gate.Stats(); s.Connects < 3 || s.ConnectFailures < 9 || s.CredentialsRefused != 0 {
		t.Errorf("counted %+v", s)
	}
}

func TestCredentialsThatBecomeRight(t *testing.T) {
	t.Parallel()
	with := func(password string) func(*server.Options) {
		return func(o *server.Options) { o.Username, o.Password = "bell", password }
	}
	n := startNATS(t, with("another"))
	url := strings.Replace(n.ClientURL(), "//", "//bell:"+secret+"@", 1)
	gate, log := watch(t, natsgate.Options{URL: url})
	refused := func(more int64) {
		t.Helper()
		before := gate.Stats().CredentialsRefused
		storetest.Eventually(t, "it is refused", func() bool { return gate.Stats().CredentialsRefused >= before+more })
	}
	refused(3)
	n.restart(with(secret))
	connected(t, gate)
	wantLinks(t, log, "refused", "up")

	// The credentials become wrong while the gateway is connected, and right again.
	n.restart(with("another"))
	refused(3)
	n.restart(with(secret))
	connected(t, gate)
	wantLinks(t, log, "refused", "up", "refused", "up")
}

func TestToken(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) { o.Authorization = secret })
	gate, log := watch(t, natsgate.Options{URL: strings.Replace(n.ClientURL(), "//", "//"+secret+"@", 1)})
	connected(t, gate)
	wantLinks(t, log, "up")
	if log.Count("nats://xxxxx@127.0.0.1") == 0 {
		t.Errorf("the server is not logged:\n%s", log)
	}
	if !gate.IsRedacted(secret) {
		t.Error("the token is shown")
	}
}

// credentials returns the options of a server that knows one account, and the
// contents of a credentials file of a user of it.
func credentials(t testing.TB) (change func(*server.Options), file []byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		storetest.Must(t, err)
	}
	operator, err := nkeys.CreateOperator()
	check(err)
	account, err := nkeys.CreateAccount()
	check(err)
	user, err := nkeys.CreateUser()
	check(err)
	public := func(k nkeys.KeyPair) string {
		text, err := k.PublicKey()
		check(err)
		return text
	}
	accountJWT, err := jwt.NewAccountClaims(public(account)).Encode(operator)
	check(err)
	userJWT, err := jwt.NewUserClaims(public(user)).Encode(account)
	check(err)
	seed, err := user.Seed()
	check(err)
	file, err = jwt.FormatUserConfig(userJWT, seed)
	check(err)
	claims := jwt.NewOperatorClaims(public(operator))
	_, err = claims.Encode(operator)
	check(err)
	return func(o *server.Options) {
		resolver := &server.MemAccResolver{}
		check(resolver.Store(public(account), accountJWT))
		o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{claims}, resolver
	}, file
}

func TestCredentialsFile(t *testing.T) {
	t.Parallel()
	change, right := credentials(t)
	_, wrong := credentials(t)
	n := startNATS(t, change)
	file := filepath.Join(t.TempDir(), "bell.creds")
	write := func(text []byte) {
		t.Helper()
		storetest.Must(t, os.WriteFile(file, text, 0o600))
	}
	write(wrong)
	gate, log := watch(t, natsgate.Options{URL: n.ClientURL(), CredsFile: file})
	failures(t, gate, 3)
	wantLinks(t, log, "refused")
	write(right)
	connected(t, gate)
	conn := n.connect(nats.UserCredentials(file))
	serving(t, conn)

	storetest.Must(t, os.Remove(file))
	n.restart(nil)
	failures(t, gate, 3)
	write(right)
	connected(t, gate)
	wantLinks(t, log, "refused", "up", "away", "up")
}

// certificate returns a self-signed certificate for 127.0.0.1, and a file of it.
func certificate(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	storetest.Must(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	storetest.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestTLS(t *testing.T) {
	t.Parallel()
	right, ca := certificate(t)
	wrong, _ := certificate(t)
	with := func(c tls.Certificate) func(*server.Options) {
		return func(o *server.Options) {
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}
		}
	}
	n := startNATS(t, with(wrong))
	url := fmt.Sprintf("127.0.0.1:%d", n.opts.Port)
	byScheme, log := watch(t, natsgate.Options{URL: "tls://" + url, CAFile: ca})
	byFile, _ := watch(t, natsgate.Options{URL: "nats://" + url, CAFile: ca})
	untrusting, untrustingLog := watch(t, natsgate.Options{URL: "tls://" + url})
	failures(t, byScheme, 3)
	wantLinks(t, log, "untrusted")
	n.restart(with(right))
	connected(t, byScheme)
	connected(t, byFile)
	failures(t, untrusting, 3)
	if untrusting.Stats().Connects != 0 {
		t.Error("a certificate of an unknown authority is trusted")
	}
	// The server switches TLS off: a gateway that requires TLS does not connect without.
	n.restart(func(o *server.Options) { o.TLSConfig = nil })
	failures(t, byScheme, 2)
	failures(t, byFile, 2)
	wantLinks(t, log, "untrusted", "up", "untrusted")
	wantLinks(t, untrustingLog, "untrusted")
}

func TestTwoServersOfWhichOneIsDead(t *testing.T) {
	t.Parallel()
	n, dead := startNATS(t, nil), startNATS(t, nil)
	dead.stop()
	for range 5 { // servers are tried in a random order
		gate, log := watch(t, natsgate.Options{URL: dead.ClientURL() + ", " + n.ClientURL()})
		connected(t, gate)
		wantLinks(t, log, "up")
		if gate.Stats().ConnectFailures == 0 && log.links()[0] == "away" {
			t.Errorf("one of two servers is taken for all:\n%s", log)
		}
	}
	gate, log := watch(t, natsgate.Options{URL: dead.ClientURL() + "," + n.ClientURL()})
	connected(t, gate)
	dead.start(nil)
	n.stop()
	storetest.Eventually(t, "it connects to the other one", func() bool { return gate.Stats().Connects >= 2 })
	wantLinks(t, log, "up", "away", "up")
}

// It is enough to name one server of a cluster: it announces the others.
func TestServersOfACluster(t *testing.T) {
	t.Parallel()
	cluster := func(routes string) func(*server.Options) {
		return func(o *server.Options) {
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1}
			o.Username, o.Password = "bell", secret
			if routes != "" {
				o.Routes = server.RoutesFromStr(routes)
			}
		}
	}
	first := startNATS(t, cluster(""))
	second := startNATS(t, cluster("nats://"+first.ClusterAddr().String()))
	user := nats.UserInfo("bell", secret)
	watcher := first.connect(user)
	storetest.Eventually(t, "the servers find each other", func() bool { return len(watcher.DiscoveredServers()) == 1 })
	gate, log := watch(t, natsgate.Options{URL: strings.Replace(first.ClientURL(), "//", "//bell:"+secret+"@", 1)})
	connected(t, gate)
	first.stop()
	storetest.Eventually(t, "it connects to the other one", func() bool { return gate.Stats().Connects >= 2 && gate.Stats().Connected })
	serving(t, second.connect(user))
	wantLinks(t, log, "up", "away", "up")
}

// A gateway is connected when the server knows what it offers, no sooner: a request
// then is not answered with "no responders".
func TestConnectedMeansOffered(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	w := newWire(t, n)
	w.until = "SUB bellhop."
	gate, _ := newGate(t, storetest.Open(t), natsgate.Options{URL: w.url()})
	storetest.Eventually(t, "the subscriptions are on their way", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.full
	})
	if gate.Stats().Connected {
		t.Error("connected before the server knows a subscription")
	}
	w.fill(false)
	connected(t, gate)
	request(t, n.connect(), "bellhop.inspect."+topic, `{"id":"nobody"}`) // else there are no responders
}

// A network that drops everything is noticed by unanswered pings.
func TestSilentCut(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	proxy := storetest.NewProxy(t, n.Addr().String())
	gate, log := watch(t, natsgate.Options{URL: "nats://" + proxy.Address()})
	connected(t, gate)
	proxy.Silence(true)
	storetest.Eventually(t, "it is noticed", func() bool { return !gate.Stats().Connected })
	wantLinks(t, log, "up", "away")
}

// A server that accepts and sends nothing delays neither the start nor the stop.
func TestServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer listener.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	gate, stop := newGate(t, storetest.Open(t), natsgate.Options{URL: "nats://" + listener.Addr().String()})
	conn := storetest.Receive(t, "a connection", accepted)
	stop()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open still: %v", err)
	}
	conn.Close()
	if gate.Stats().Connects != 0 {
		t.Error("it takes that for a connection")
	}

	// The stop itself closes the connection, however long the server would be waited for.
	ctx, cancel := context.WithCancel(t.Context())
	dialled, err := natsgate.Dial(ctx, listener.Addr().String())
	storetest.Must(t, err)
	defer dialled.Close()
	storetest.Must(t, dialled.SetReadDeadline(time.Now().Add(storetest.Deadline)))
	cancel()
	if _, err := dialled.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection is open after the stop: %v", err)
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bell", Password: secret, Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"$SRV.>", "bellhop.inspect.>"}},
		}}}
	})
	gate, log := watch(t, natsgate.Options{URL: strings.Replace(n.ClientURL(), "//", "//bell:"+secret+"@", 1)})
	connected(t, gate)
	storetest.Eventually(t, "all that is not permitted is counted", func() bool { return gate.Stats().Permissions >= 8 })
	wantOncePerConnection(t, gate, log, "nats does not permit a subject")
	storetest.Eventually(t, "the connection is logged", func() bool { return len(log.links()) > 0 })
	if got := log.links(); got[len(got)-1] != "up" {
		t.Errorf("it disconnects:\n%s", log)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	file := filepath.Join(t.TempDir(), "empty")
	storetest.Must(t, os.WriteFile(file, []byte("nothing\n"), 0o600))
	for what, test := range map[string]struct {
		o     natsgate.Options
		texts []string
	}{
		"no address":            {natsgate.Options{}, []string{"nats URL", "nats://HOST:PORT"}},
		"another scheme":        {natsgate.Options{URL: "http://u:" + secret + "@a"}, []string{"scheme", "u:xxxxx@a"}},
		"no scheme":             {natsgate.Options{URL: "localhost:4222"}, []string{"[unreadable]"}},
		"a user without //":     {natsgate.Options{URL: "nats:u:" + secret + "@a"}, []string{"[unreadable]"}},
		"a port that is none":   {natsgate.Options{URL: "nats://u:" + secret + "@a:no"}, []string{"[unreadable]"}},
		"an escape that is bad": {natsgate.Options{URL: "nats://u:" + secret + "%zz@a"}, []string{"[unreadable]"}},
		"an @ in the path":      {natsgate.Options{URL: "nats://a/" + secret + "@b"}, []string{"[unreadable]"}},
		"a path":                {natsgate.Options{URL: "nats://a/" + secret}, []string{"something follows the port"}},
		"no host":               {natsgate.Options{URL: "nats://:4222"}, []string{"no host"}},
		"an empty second one":   {natsgate.Options{URL: "nats://a,"}, []string{"nats URL"}},
		"a prefix":              {natsgate.Options{Prefix: "a.*"}, []string{"prefix", "single dots"}},
		"a prefix's end":        {natsgate.Options{Prefix: "a."}, []string{"prefix"}},
		"the inboxes":           {natsgate.Options{Prefix: "_INBOX"}, []string{"prefix _INBOX", "such as bellhop"}},
		"an inbox":              {natsgate.Options{Prefix: "_INBOX.a"}, []string{"prefix _INBOX.a"}},
		"a stream":              {natsgate.Options{JetStream: "a.b"}, []string{"jetstream"}},
		"no credentials":        {natsgate.Options{CredsFile: file}, []string{file, "nsc generate creds"}},
		"no certificates":       {natsgate.Options{CAFile: file}, []string{file, "no PEM certificate"}},
	} {
		if test.o.URL == "" && what != "no address" {
			test.o.URL = "nats://127.0.0.1"
		}
		_, err := natsgate.New(store, test.o)
		if !errors.Is(err, notify.ErrInvalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", what, err)
			continue
		}
		for _, text := range test.texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q in it", what, err, text)
			}
		}
	}
	for _, o := range []natsgate.Options{{CredsFile: "/nowhere/creds"}, {CAFile: "/nowhere/ca"}} {
		o.URL = "nats://127.0.0.1"
		if _, err := natsgate.New(store, o); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
	}
}

func TestRedactURLs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                    "",
		"nats://127.0.0.1:4222":               "nats://127.0.0.1:4222",
		"nats://u:p@a:1, tls://token@b:2":     "nats://u:xxxxx@a:1,tls://xxxxx@b:2",
		"nats://u:p@a:1/path?x=" + secret:     "nats://u:xxxxx@a:1",
		"u:p@a:1":                             "[unreadable]",
		"nats://u:" + secret + "%zz@a,nats:x": "[unreadable],[unreadable]",
	} {
		if got := natsgate.RedactURLs(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
