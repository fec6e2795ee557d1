package console_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(watchedURL); url != "" {
		storetest.Patient()
		os.Exit(watch(url))
	}
	console.Extend()
	storetest.MainWaiting(m)
}

// Tokens of the tokens file of tests, by their names.
var tokens = map[string]string{
	"root":    "root-token-0123456789",
	"shop":    "shop-token-0123456789",
	"reader":  "reader-token-0123456789",
	"metrics": "metrics-token-0123456789",
}

// tokensFile is what the tokens file of tests grants.
var tokensFile = strings.NewReplacer("ROOT", tokens["root"], "SHOP", tokens["shop"], "READER", tokens["reader"], "METRICS", tokens["metrics"]).Replace(`
root ROOT admin >
shop SHOP publish,consume,listen order.>
reader READER metrics order.>
metrics METRICS metrics >
`)

// writeTokens writes a tokens file, and returns its path.
func writeTokens(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A site is a daemon's gateway with the console.
type site struct {
	t     testing.TB
	store *notify.Store
	gate  *httpapi.Gate
	port  int
	url   string // http://HOST:PORT
	log   *journal
	stop  func()
}

// serve runs a gateway with the console on a store. Without a tokens file it is open.
func serve(t testing.TB, store *notify.Store, o httpapi.Options) *site {
	t.Helper()
	return serveAt(t, store, o, storetest.Port(t))
}

func serveAt(t testing.TB, store *notify.Store, o httpapi.Options, port int) *site {
	t.Helper()
	s := &site{t: t, store: store, port: port, log: &journal{}}
	o.Console = true
	o.Version = "v1.2.3"
	o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	gate, err := httpapi.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Vacated(t, port) // if it is that of a site that stopped
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	s.gate, s.url = gate, "http://"+l.Addr().String()
	s.stop = storetest.Run(t, func(ctx context.Context) error { return gate.Run(ctx, l) })
	return s
}

// guarded is serve with the tokens file of tests.
func guarded(t testing.TB, store *notify.Store) *site {
	t.Helper()
	return serve(t, store, httpapi.Options{TokensFile: writeTokens(t, tokensFile)})
}

// open is serve with a store of its own, open to everybody.
func open(t testing.TB) *site {
	t.Helper()
	return serve(t, storetest.Open(t), httpapi.Options{})
}

// sound is open with a Redis of which the doctor has no fault to find.
func sound(t testing.TB, o httpapi.Options) *site {
	t.Helper()
	return serve(t, storetest.At(t, storetest.Server(t, "--appendonly", "yes").URL(), "sound"), o)
}

// browse opens a page of the site in a browser.
func (s *site) browse(path string, look consoletest.Look) *consoletest.Page {
	s.t.Helper()
	return consoletest.Open(s.t, s.url+path, look)
}

// A visitor is a client of a site with cookies of its own. It follows no redirect.
type visitor struct {
	*site
	http.Client
}

// visitor returns one without a cookie.
func (s *site) visitor() *visitor {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &visitor{s, http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// login returns a visitor who has logged in with the token of a name.
func (s *site) login(name string) *visitor {
	s.t.Helper()
	v := s.visitor()
	v.post("/ui/login", "token", tokens[name]).is(http.StatusSeeOther)
	return v
}

// A shown is what a site answered.
type shown struct {
	t      testing.TB
	store  *notify.Store
	url    *url.URL
	call   string
	status int
	header http.Header
	body   string
}

// fromRoot returns the address of a page as pages write it.
func fromRoot(path string) string { return cmp.Or(strings.TrimPrefix(path, console.Root), "./") }

// get asks for a page, by its path or as a page writes it, with headers NAME: VALUE.
func (v *visitor) get(path string, headers ...string) shown {
	v.t.Helper()
	return v.send(http.MethodGet, path, "", headers...)
}

// post sends a form: pairs of name and value.
func (v *visitor) post(path string, pairs ...string) shown {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return v.send(http.MethodPost, path, form.Encode(), "Content-Type: application/x-www-form-urlencoded")
}

func (v *visitor) send(method, path, body string, headers ...string) shown {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), storetest.Deadline)
	defer cancel()
	to := mustURL(v.t, v.url+console.Root).ResolveReference(mustURL(v.t, path))
	r, err := http.NewRequestWithContext(ctx, method, to.String(), strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return shown{v.t, v.store, to, method + " " + path, resp.StatusCode, resp.Header, string(text)}
}

// is fails the test if the status is another one.
func (s shown) is(status int) shown {
	s.t.Helper()
	if s.status != status {
		s.t.Fatalf("%.200s answers %d, want %d: %.3000s", s.call, s.status, status, s.body)
	}
	return s
}

// says fails the test if a text is missing.
func (s shown) says(texts ...string) shown {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.body, text) {
			s.t.Errorf("%.200s does not say %q: %.5000s", s.call, text, s.body)
		}
	}
	return s
}

// hides fails the test if a text is there.
func (s shown) hides(texts ...string) shown {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(s.body, text) {
			s.t.Errorf("%.200s says %q: %.5000s", s.call, text, s.body)
		}
	}
	return s
}

// leads fails the test if the answer does not lead to a page.
func (s shown) leads(path string) shown {
	s.t.Helper()
	s.is(http.StatusSeeOther)
	to := s.header.Get("Location")
	if got := s.url.ResolveReference(mustURL(s.t, to)); got.Host != s.url.Host || got.RequestURI() != path || strings.HasPrefix(to, "/") {
		s.t.Errorf("%.200s leads to %q, want %q as it is seen from there", s.call, to, path)
	}
	return s
}

// did fails the test if the answer does not lead to a page that says what was done.
func (s shown) did(what, path string) {
	s.t.Helper()
	s.leads(path)
	cookies, said := (&http.Response{Header: s.header}).Cookies(), ""
	for _, c := range cookies {
		if c.Name == console.DoneCookie {
			said, _, _ = signing.New(s.store).Open(s.t.Context(), console.DoneCookie, c.Value)
			said, _, _ = strings.Cut(said, "\n")
		}
	}
	if said != what {
		s.t.Errorf("%.200s did %q, want %q", s.call, said, what)
	}
}

var (
	onceField    = regexp.MustCompile(`name="once" value="([^"]+)"`)
	editionField = regexp.MustCompile(`name="edition" value="([^"]+)"`)
	assetEdition = regexp.MustCompile(`\?e=([0-9a-f]+)`)
)

// field returns what a pattern finds in the page.
func (s shown) field(pattern *regexp.Regexp) string {
	s.t.Helper()
	found := pattern.FindStringSubmatch(s.body)
	if found == nil {
		s.t.Fatalf("%.200s has no %s: %.3000s", s.call, pattern, s.body)
	}
	return found[1]
}

// A journal is what a gateway logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// queries are those without which a page says that something is missing.
var queries = map[string]string{
	"/ui/dead/letters": "?topic=order.refused", "/ui/find": "?q=state:dead", "/ui/find/act": "?q=state:dead&act=requeue", "/ui/broadcasts/remove": "?name=warehouse",
	"/ui/put/schedule": "?topic=order.timeout&name=nightly", "/ui/put/push": "?name=crm",
}

// addresses returns an address of each page.
func addresses(t testing.TB) (all []string) {
	t.Helper()
	for _, pattern := range console.Patterns() {
		path := strings.NewReplacer("{topic}", "order.timeout", "{id}", "order-4711", "{name}", "nightly", "{push}", "crm").Replace(pattern)
		if strings.Contains(path, "{") {
			t.Errorf("%s: say here which address of it is looked at", pattern)
		}
		all = append(all, path+queries[path])
	}
	return all
}

// serviceOf returns the service of a store.
func serviceOf(t testing.TB, store *notify.Store) *calls.Service {
	t.Helper()
	service, err := calls.NewService(store, nil, discard)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// anybody is a viewer where there are no tokens.
func anybody() *console.Viewer {
	client := calls.Anybody("anybody")
	return &console.Viewer{Client: &client, Valid: context.Background(), Pages: new(atomic.Int64), Reserve: reserves}
}

// reserves is the memory of a viewer who never has too little.
func reserves(*http.Request, int64) (free func(), err error) { return func() {}, nil }

// message returns a message that is due at once.
func message(topic, body string) notify.Message {
	return notify.Message{Topic: topic, Body: []byte(body)}
}

// fingerprint returns the hash of a token, in hexadecimal digits.
func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var discard = slog.New(slog.DiscardHandler)

// scriptCalls counts the calls of scripts by their names.
type scriptCalls struct {
	mu sync.Mutex
	n  map[string]int64
}

func (c *scriptCalls) observe(script string, _ time.Duration, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int64)
	}
	c.n[script]++
}

func (c *scriptCalls) of(script string) int64 { return c.all()[script] }

func (c *scriptCalls) all() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
