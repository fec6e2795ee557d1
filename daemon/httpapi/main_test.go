package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.MainWaiting(m) }

// A server is a running gateway, and a client of it that checks every answer by the
// OpenAPI document.
type server struct {
	t     testing.TB
	store *notify.Store
	gate  *httpapi.Gate
	url   string // http://HOST:PORT
	spec  *spec
	http.Client
}

// serveOn starts a gateway on a store, and stops it when the test ends.
func serveOn(t testing.TB, store *notify.Store, o httpapi.Options) *server {
	t.Helper()
	gate, err := httpapi.New(store, o)
	storetest.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	storetest.Run(t, func(ctx context.Context) error { return gate.Run(ctx, l) })
	s := &server{t: t, store: store, gate: gate, url: "http://" + l.Addr().String(), spec: sharedSpec(t)}
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	s.Client = http.Client{Transport: checked{t, s.spec, transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// start is serveOn with a store of its own.
func start(t testing.TB, o httpapi.Options) *server {
	t.Helper()
	return serveOn(t, storetest.Open(t), o)
}

// An answer is the answer of a call.
type answer struct {
	t      testing.TB
	call   string
	status int
	header http.Header
	body   []byte
}

// call sends a request. The path has its query; each header is NAME: VALUE.
func (s *server) call(method, path, body string, headers ...string) answer {
	s.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url, in)
	storetest.Must(s.t, err)
	raw, query, _ := strings.Cut(path, "?")
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = unescape(raw), raw, query
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return s.send(r)
}

func unescape(path string) string {
	if text, err := url.PathUnescape(path); err == nil {
		return text
	}
	return path
}

func (s *server) send(r *http.Request) answer {
	s.t.Helper()
	resp, err := s.Do(r)
	storetest.Must(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	storetest.Must(s.t, err)
	return answer{s.t, r.Method + " " + r.URL.RequestURI(), resp.StatusCode, resp.Header, body}
}

// is fails the test if the answer has another status.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("%.300s answers %d, want %d: %.2000s", a.call, a.status, status, a.body)
	}
	return a
}

// kind fails the test if the answer is not a problem of this kind.
func (a answer) kind(kind string) answer {
	a.t.Helper()
	if p := a.problem(); p.Type != "urn:bellhop:"+kind {
		a.t.Errorf("%.300s answers %d %s, want %s: %s", a.call, a.status, p.Type, kind, p.Detail)
	}
	return a
}

// says fails the test if the body does not contain the text.
func (a answer) says(text string) answer {
	a.t.Helper()
	if !bytes.Contains(a.body, []byte(text)) {
		a.t.Errorf("%.300s answers %d without %q: %.2000s", a.call, a.status, text, a.body)
	}
	return a
}

func (a answer) problem() (p api.Problem) {
	a.t.Helper()
	if a.header.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("%.300s answers %d with %s", a.call, a.status, a.header.Get("Content-Type"))
		return p
	}
	return read[api.Problem](a)
}

// read reads an answer in JSON.
func read[T any](a answer) (v T) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.t.Errorf("%.300s answers %d: %v in %.300s", a.call, a.status, err, a.body)
	}
	return v
}

// lines reads an answer of lines of JSON.
func lines[T any](a answer) (all []T) {
	a.t.Helper()
	for line := range bytes.Lines(a.body) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			a.t.Errorf("%v in %.300s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// claim claims a message of a topic, which must be there.
func (s *server) claim(topic string) api.Delivery {
	s.t.Helper()
	got := read[api.Claimed](s.call("POST", "/v1/topics/"+topic+"/claim", "").is(200))
	if len(got.Messages) != 1 {
		s.t.Fatalf("%d messages of %s were claimed, want 1", len(got.Messages), topic)
	}
	return got.Messages[0]
}

// fingerprint returns all that Redis has under a store's prefix, except notes about its memory.
func fingerprint(t testing.TB, store *notify.Store) map[string]string {
	t.Helper()
	keys, err := store.Client().Keys(t.Context(), "*").Result()
	storetest.Must(t, err)
	print := make(map[string]string)
	for _, key := range keys {
		if !strings.HasPrefix(key, strings.SplitN(store.Keys().Base(), ":", 2)[0]) || strings.Contains(key, ":room:") {
			continue
		}
		if print[key], err = store.Client().Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return print
}

// newAnswer returns a ResponseWriter without a connection, but with deadlines.
func newAnswer() *recorded { return &recorded{ResponseRecorder: httptest.NewRecorder()} }

type recorded struct{ *httptest.ResponseRecorder }

func (*recorded) SetReadDeadline(time.Time) error  { return nil }
func (*recorded) SetWriteDeadline(time.Time) error { return nil }

// file writes a file of the test's own and returns its name.
func file(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	write(t, name, text)
	return name
}

func write(t testing.TB, name, text string) {
	t.Helper()
	storetest.Must(t, os.WriteFile(name, []byte(text), 0o600))
}

// names returns the parameters that a problem names.
func names(p api.Problem) (all []string) {
	for _, fault := range p.Errors {
		all = append(all, fault.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
