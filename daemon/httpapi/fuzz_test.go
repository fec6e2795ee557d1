package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A target answers requests without a connection.
type target struct {
	t       testing.TB
	handler http.Handler
	spec    *spec
}

func newTarget(t testing.TB, o httpapi.Options) *target {
	t.Helper()
	gate, err := httpapi.New(storetest.Open(t), o)
	storetest.Must(t, err)
	return &target{t, gate.Handler(), sharedSpec(t)}
}

// patience is how long a call may be held open.
const patience = 20 * time.Millisecond

// answer serves a request, and fails the test if the document does not describe the answer.
func (g *target) answer(t *testing.T, r *http.Request) *recorded {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), storetest.Deadline)
	if strings.HasSuffix(r.URL.Path, "/broadcasts") || strings.HasSuffix(r.URL.Path, "/claim") {
		ctx, cancel = context.WithTimeout(t.Context(), patience)
	}
	defer cancel()
	w := newAnswer()
	g.handler.ServeHTTP(w, r.WithContext(ctx))
	if w.Code == http.StatusServiceUnavailable && ctx.Err() != nil || !strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/v1/openapi.json" {
		return w
	}
	body := w.Body.Bytes()
	if w.Header().Get("Content-Type") == "text/event-stream" {
		body = nil
	}
	if err := g.spec.check(r, w.Code, w.Header(), body); err != nil || w.Code >= 500 {
		t.Errorf("%s %q answers %d: %v: %s", r.Method, r.URL, w.Code, err, w.Body)
	}
	return w
}

// parseRequest reads a request as a server does; nil if it is malformed.
func parseRequest(method, address, body string) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + address + " HTTP/1.1\r\nHost: a\r\n\r\n")))
	if err != nil {
		return nil
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

func FuzzQuery(f *testing.F) {
	g := newTarget(f, httpapi.Options{})
	for i, op := range g.spec.ops {
		path, query, _ := wrongCase{op: op}.address()
		f.Add(byte(i), path, query)
		for _, p := range op.Parameters {
			path, query, _ := wrongCase{op: op, param: p, raw: []string{"x"}}.address()
			f.Add(byte(i), path, query)
		}
	}
	f.Add(byte(0), "/v1/topics/a%2Fb/../%00", "a=%ff&&=&a=1;b=2")
	f.Fuzz(func(t *testing.T, i byte, path, query string) {
		op := g.spec.ops[int(i)%len(g.spec.ops)]
		body := ""
		if op.RequestBody != nil {
			body = "x"
		}
		if r := parseRequest(op.method, path+"?"+query, body); r != nil {
			g.answer(t, r)
		}
	})
}

func FuzzBulk(f *testing.F) {
	g := newTarget(f, httpapi.Options{MaxBody: 1000})
	for _, body := range []string{
		"", "\n", "{}", "null\r\n[]", `{"topic":"orders","body":"x"}`, `{"topic":"orders","mode":"broadcast","id":"b","due":"2030-01-01T00:00:00Z","headers":{"A":"b"},"body_base64":"eA=="}` + "\n\n\xff",
		`{"topic":"orders","delay":"1h","ttl":"1s","attempts":3,"content_type":"a","body":"x","died":"2030-01-01T00:00:00Z","reason":"x","attempts_used":1}`,
		`[{"id":"a","receipt":1}]`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := g.answer(t, parseRequest("POST", "/v1/messages", body))
		said := 0
		for line := range strings.Lines(body) {
			if len(bytes.TrimSpace([]byte(line))) > 0 {
				said++
			}
		}
		if got := bytes.Count(w.Body.Bytes(), []byte{'\n'}); w.Code == 200 && got != said {
			t.Errorf("%d lines answer %d", said, got)
		}
		g.answer(t, parseRequest("POST", "/v1/topics/orders/ack", body))
	})
}

func FuzzHeaders(f *testing.F) {
	g := newTarget(f, httpapi.Options{})
	f.Add("Bellhop-Header-X", "1", "text/plain")
	f.Add("bellhop-", "\xff", "\x00")
	f.Add("Last-Event-ID", "1735830245678-123", "")
	f.Add("Authorization", "Bearer x", "a/b; c=d")
	f.Add("Content-Encoding", "gzip", "\t")
	f.Fuzz(func(t *testing.T, name, value, kind string) {
		r := parseRequest("POST", "/v1/topics/orders/messages", "x")
		r.Header.Add(name, value)
		r.Header.Add("Content-Type", kind)
		if w := g.answer(t, r); w.Code == 201 {
			g.answer(t, parseRequest("POST", "/v1/topics/orders/claim?as=body", ""))
			g.answer(t, parseRequest("POST", "/v1/topics/orders/claim?max=500", ""))
		}
		r = parseRequest("GET", "/v1/topics/orders/broadcasts", "")
		r.Header.Add(name, value)
		if !strings.EqualFold(name, "Last-Event-ID") || strings.Contains(value, "-") {
			r.Method = "HEAD" // no stream
		}
		g.answer(t, r)
	})
}

func FuzzTokens(f *testing.F) {
	const secret = "a-secret-that-nobody-tells-0123456789"
	f.Add("a "+secret+" publish,listen order.>,a\n# x\n", "Bearer "+secret)
	f.Add("a sha256:"+strings.Repeat("0", 64)+" admin >", "bearer x")
	f.Add(secret+" a publish >", "Basic")
	f.Add("a b c d\nshop long-enough-to-be-one "+secret+" x", "\x00")
	f.Add("a long-enough-to-be-one publish "+secret+"/", "Bearer  ")
	store, document := storetest.Open(f), sharedSpec(f)
	f.Fuzz(func(t *testing.T, text, authorization string) {
		name := filepath.Join(t.TempDir(), "tokens")
		storetest.Must(t, os.WriteFile(name, []byte(text), 0o600))
		err := httpapi.CheckTokens(name)
		if err != nil {
			said := strings.ReplaceAll(err.Error(), name, "")
			for _, word := range strings.Fields(text) {
				if len(word) >= 16 && strings.Contains(said, word) {
					t.Errorf("the error repeats %q: %s", word, said)
				}
			}
			return
		}
		gate, err := httpapi.New(store, httpapi.Options{TokensFile: name})
		storetest.Must(t, err)
		r := parseRequest("GET", "/v1/carrier", "")
		r.Header.Set("Authorization", authorization)
		g := target{t, gate.Handler(), document}
		if w := g.answer(t, r); w.Code == 200 && !knows(text, authorization) {
			t.Errorf("%q lets in %q", text, authorization)
		}
	})
}

// knows reports whether a file has the sent token, or its hash.
func knows(text, authorization string) bool {
	fields := strings.Fields(authorization)
	return len(fields) == 2 && (slices.Contains(strings.Fields(text), fields[1]) || strings.Contains(text, "sha256:"))
}
