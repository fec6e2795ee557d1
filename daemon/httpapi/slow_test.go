package httpapi_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What clients may take by the default timing.
const (
	forHeader = 10 * time.Second
	forBody   = 30 * time.Second
	forAnswer = 30 * time.Second
	forIdle   = 2 * time.Minute
)

// A connection whose header does not come is closed when its time is over, and so is one without a request.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{})
		for _, text := range []string{"", "GET /v1/top", "GET /v1/topics HTTP/1.1\nHost: x\nX-A: "} {
			began := time.Now()
			b.dial().say(text).closed()
			if took := time.Since(began); took != forHeader {
				t.Errorf("%q: it is closed after %v", text, took)
			}
		}
		began := time.Now()
		trickle := b.dial().say("GET /v1/topics HTTP/1.1\nHost: x\n")
		for err := error(nil); err == nil; time.Sleep(time.Second) { // its lines come in time, but the last one never
			_, err = io.WriteString(trickle, "X-A: b\r\n")
		}
		if took := time.Since(began); took > forHeader+2*time.Second {
			t.Errorf("one that sends on is closed after %v", took)
		}
		idle := b.dial().say(getHealth)
		idle.wantOK()
		began = time.Now()
		idle.closed()
		if took := time.Since(began); took != forIdle {
			t.Errorf("an idle one is closed after %v", took)
		}
	})
}

// A body that stops half way occupies nothing for longer than a body may take, whatever the call, and half a message is not
// published: Redis is not asked.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := newBubble(t, httpapi.Options{})
		closed := newBubble(t, httpapi.Options{TokensFile: file(t, "tokens", "some aaaaaaaaaaaaaaaaaaaaaa publish,consume >\n")})
		for _, test := range []struct {
			b      *bubble
			start  string
			status int
		}{
			{open, "POST /v1/topics/orders/messages", http.StatusRequestTimeout},
			{open, "POST /v1/topics/orders/broadcasts", http.StatusRequestTimeout},
			{open, "POST /v1/messages", http.StatusRequestTimeout},
			{open, "POST /v1/topics/orders/claim?wait=1m", http.StatusUnprocessableEntity}, // a poll takes no body
			{open, "POST /v1/topics/orders/ack", http.StatusRequestTimeout},
			{open, "POST /v1/topics/orders/messages?x=1", http.StatusUnprocessableEntity},
			{open, "POST /v2", http.StatusNotFound},
			{open, "PUT /v1/topics", http.StatusMethodNotAllowed},
			{open, "GET /healthz", http.StatusOK},
			{closed, "POST /v1/topics/orders/messages", http.StatusUnauthorized},
		} {
			for _, rest := range []string{"Content-Length: 100\n\nhalf", "Transfer-Encoding: chunked\n\n5\nhello\n5\nhe"} {
				began := time.Now()
				w := test.b.dial().say(test.start + " HTTP/1.1\nHost: x\n" + rest)
				if status := w.status(); status != test.status {
					t.Errorf("%s, %q: got %d, want %d", test.start, rest, status, test.status)
				}
				w.closed()
				if took := time.Since(began); took > forBody {
					t.Errorf("%s, %q: it is closed after %v", test.start, rest, took)
				}
			}
		}
	})
}

// A slow body that comes in time is read, and its deadline does not outlive it: later requests on its connection last
// as long as they may.
func TestBodyDeadlineEndsWithBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{Metrics: lasting(forAnswer - time.Second)})
		w := b.dial()
		for range 2 {
			w.say("POST /v1/messages HTTP/1.1\nHost: x\nContent-Length: 2\n\n{")
			time.Sleep(forBody - time.Second)
			w.say("}")
			w.wantOK()
			w.say("GET /metrics HTTP/1.1\nHost: x\n\n").wantOK()
		}
	})
}

// lasting is a handler that takes some time, or fails when the client seems to be gone.
func lasting(d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

// The same over HTTP/2, whose streams have deadlines of their own.
func TestSlowOverHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{CertFile: cert, KeyFile: key, Metrics: lasting(forAnswer - time.Second)})
		transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := b.clients.dial()
			if err != nil {
				return nil, err
			}
			secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			return secured, secured.HandshakeContext(ctx)
		}}
		defer transport.CloseIdleConnections()
		wants := func(status int, method, path string, body io.Reader) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, "https://x"+path, body)
			storetest.Must(t, err)
			response, err := transport.RoundTrip(r)
			storetest.Must(t, err)
			response.Body.Close()
			if response.StatusCode != status || response.ProtoMajor != 2 {
				t.Errorf("%s %s: got %d over %s, want %d", method, path, response.StatusCode, response.Proto, status)
			}
		}
		stuck, end := io.Pipe()
		defer end.Close()
		began := time.Now()
		wants(http.StatusRequestTimeout, "POST", "/v1/topics/orders/messages", stuck)
		if took := time.Since(began); took != forBody {
			t.Errorf("a body that stops is refused after %v", took)
		}
		wants(http.StatusOK, "POST", "/v1/messages", strings.NewReader("{}"))
		wants(http.StatusOK, "GET", "/metrics", nil)
	})
}

// certificate writes a certificate for tests, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	cert, key = file(t, "cert.pem", ""), file(t, "key.pem", "")
	newCert(t, cert, key, 1)
	return cert, key
}

// A call that waits may be answered when its wait is over, and the deadline of its body does not end it.
func TestDeadlinesOfCalls(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	answers := func(status int, method, address, body string, wait time.Duration) {
		t.Helper()
		r := parseRequest(method, address, body)
		r.ContentLength = -1 // it comes in chunks
		began := time.Now()
		w := &dated{recorded: newAnswer()}
		h.Handler().ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code != status {
			t.Errorf("%s answers %d, want %d: %s", address, w.Code, status, w.Body)
		}
		if !w.readUntil.IsZero() {
			t.Errorf("%s: a read ends at %v", address, w.readUntil)
		}
		if w.writeUntil.Before(began.Add(wait + forAnswer)) {
			t.Errorf("%s: the answer must be taken within %v", address, w.writeUntil.Sub(began))
		}
	}
	const message = "/v1/topics/orders/messages/m"
	answers(http.StatusCreated, "POST", "/v1/topics/orders/messages?id=m", "x", 0)
	answers(http.StatusOK, "POST", "/v1/topics/orders/claim?wait=5m", "", 5*time.Minute)
	answers(http.StatusOK, "POST", "/v1/claim?topics=orders&wait=1ms", "", time.Millisecond)
	answers(http.StatusOK, "GET", message+"?wait=1ms", "", time.Millisecond)
	answers(http.StatusNotFound, "GET", "/v1/topics/orders/messages/none?wait=5m", "", 0)
}

// A dated answer notes its deadlines.
type dated struct {
	*recorded
	readUntil, writeUntil time.Time
}

func (d *dated) SetReadDeadline(t time.Time) error {
	d.readUntil = t
	return nil
}

func (d *dated) SetWriteDeadline(t time.Time) error {
	d.writeUntil = t
	return nil
}

// An answer that nobody reads delays no other client. When its time is over, its connection ends, and a stop does not wait for it.
func TestAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	var big []notify.Message
	for range 60 {
		big = append(big, notify.Message{Topic: "orders", Body: make([]byte, notify.DefaultMaxBody), Delay: time.Hour})
	}
	storetest.Publish(t, store, big...)
	patient, h := serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Hour}), serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Second})
	const list = "GET /v1/topics/orders/messages?limit=60 HTTP/1.1\nHost: x\n\n"
	patient.dial(t).say(list)
	patient.want(client(t), http.StatusOK, "GET", "/healthz", "")
	w := h.dial(t).say(list)
	stop(t, h)
	if _, err := http.ReadResponse(w.r, nil); err == nil {
		if n, err := io.Copy(io.Discard, w.r); err == nil && n >= 60*notify.DefaultMaxBody {
			t.Error("it came as a whole")
		}
	}
}

// stop quiesces a gateway, which must be done within the deadline.
func stop(t testing.TB, h *host) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Quiesce(t.Context())
	}()
	storetest.Receive(t, "the gateway is quiet", done)
	h.stop()
}

func TestPipelined(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	const publish = "POST /v1/topics/orders/messages?id=%d HTTP/1.1\nHost: x\nContent-Length: 1\n\nx"
	w, text := h.dial(t), ""
	for i := range 20 {
		text += fmt.Sprintf(publish, i)
	}
	w.say(text + "POST /v1/topics/none/claim?wait=50ms HTTP/1.1\nHost: x\n\n" + "GET /healthz HTTP/1.1\nHost: x\nConnection: close\n\n")
	for range 20 {
		if status := w.status(); status != http.StatusCreated {
			t.Fatalf("got %d", status)
		}
	}
	for range 2 {
		if status := w.status(); status != http.StatusOK {
			t.Fatalf("got %d", status)
		}
	}
	w.closed()
}

// A client that closes its side after its request still gets the answer.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	for i := range 20 {
		w := h.dial(t).say(fmt.Sprintf("POST /v1/topics/orders/messages?id=%d HTTP/1.1\nHost: x\nContent-Length: 1\n\nx", i))
		closeWrite(t, w)
		if status := w.status(); status != http.StatusCreated {
			t.Fatalf("got %d", status)
		}
		w.closed()
	}
}

// Bytes that two servers could read as different requests are refused, and what stands behind them is no request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{})
		const inner = "POST /v1/topics/smuggled/messages HTTP/1.1\nHost: x\nContent-Length: 1\n\nx"
		for name, head := range map[string]string{
			"two lengths":        "Content-Length: 5\nContent-Length: 6",
			"list of lengths":    "Content-Length: 5, 6",
			"signed length":      "Content-Length: +5",
			"two codings":        "Transfer-Encoding: chunked\nTransfer-Encoding: identity",
			"unknown coding":     "Transfer-Encoding: xchunked",
			"space before colon": "Content-Length : 5",
			"folded":             "X-A: b\n Content-Length: 5",
			"bare name":          "Content-Length",
		} {
			w := b.dial().say("POST /v1/topics/orders/ack HTTP/1.1\nHost: x\n" + head + "\n\n0\n\n" + inner)
			if status := w.status(); status < 400 || status == http.StatusInternalServerError || status == http.StatusServiceUnavailable {
				t.Errorf("%s: got %d", name, status)
			}
			if rest, _ := io.ReadAll(w.r); strings.Contains(string(rest), " 503 ") { // Redis is away
				t.Errorf("%s: what stands behind it is a request: %s", name, rest)
			}
		}
	})
}

// With both a length and chunks, net/http ignores the length, as RFC 9112 allows, and
// hides it from handlers, so it cannot be refused here.
func TestLengthBesideChunks(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	w := h.dial(t).say("POST /v1/topics/orders/messages?id=m HTTP/1.1\nHost: x\nContent-Length: 400\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n")
	if status := w.status(); status != http.StatusCreated {
		t.Errorf("got %d", status)
	}
	if info, err := storetest.Inspector(t, store).Inspect(t.Context(), "orders", "m"); err != nil || string(info.Body) != "x" {
		t.Errorf("the body is %q, %v", info.Body, err)
	}
}

// Thousands of connections that send nothing keep no other client out, and are closed when their time is over.
func TestConnectionsThatSendNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{MaxConns: 5000})
		began := time.Now()
		var silent []*wire
		for range 4000 {
			silent = append(silent, b.dial())
		}
		b.dial().say(getHealth).wantOK()
		for _, w := range silent {
			w.closed()
		}
		if took := time.Since(began); took != forHeader {
			t.Errorf("they are closed after %v", took)
		}
		b.dial().say(getHealth).wantOK()
	})
}
