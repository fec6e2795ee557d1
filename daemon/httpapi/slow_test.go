package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// haste is longer than a busy machine delays a request that is not slow.
const haste = 2500 * time.Millisecond

// hasty is a timing that lets tests of slow clients end soon.
var hasty = httpapi.Timing{Header: haste, Body: haste, Answer: haste, Idle: haste}

func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, hasty)
	for name, text := range map[string]string{
		"nothing": "", "half a line": "GET /v1/top", "half a header": "GET /v1/topics HTTP/1.1\nHost: x\nX-A: ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.dial(t).say(text).closed()
		})
	}
	t.Run("trickle", func(t *testing.T) {
		t.Parallel()
		w := h.dial(t).say("GET /v1/topics HTTP/1.1\nHost: x\n")
		next := time.NewTicker(20 * time.Millisecond) // a slow client: its lines come in time, but the last one never
		defer next.Stop()
		storetest.Eventually(t, "it is cut off", func() bool {
			<-next.C
			_, err := io.WriteString(w, "X-A: b\r\n")
			return err != nil
		})
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		w := h.dial(t).say("GET /healthz HTTP/1.1\nHost: x\n\n")
		if status := w.status(); status != http.StatusOK {
			t.Errorf("got %d", status)
		}
		w.closed()
	})
}

// A body that stops half way occupies nothing for long, whatever the call, and half a
// message is not published.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/tokens"
	if err := os.WriteFile(file, []byte("some aaaaaaaaaaaaaaaaaaaaaa publish,consume >\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := storetest.Open(t)
	open := serve(t, store, httpapi.Options{}, hasty)
	closed := serve(t, store, httpapi.Options{TokensFile: file}, hasty)
	const sized, chunked = "Content-Length: 100\n\nhalf", "Transfer-Encoding: chunked\n\n5\nhello\n5\nhe"
	for name, test := range map[string]struct {
		h      *host
		start  string
		status int
	}{
		"publish":    {open, "POST /v1/topics/orders/messages", http.StatusRequestTimeout},
		"broadcast":  {open, "POST /v1/topics/orders/broadcasts", http.StatusRequestTimeout},
		"many":       {open, "POST /v1/messages", http.StatusRequestTimeout},
		"poll":       {open, "POST /v1/topics/orders/claim?wait=1m", http.StatusUnprocessableEntity}, // a poll takes no body
		"acks":       {open, "POST /v1/topics/orders/ack", http.StatusRequestTimeout},
		"bad query":  {open, "POST /v1/topics/orders/messages?x=1", http.StatusUnprocessableEntity},
		"no call":    {open, "POST /v2", http.StatusNotFound},
		"bad method": {open, "PUT /v1/topics", http.StatusMethodNotAllowed},
		"health":     {open, "GET /healthz", http.StatusOK},
		"no token":   {closed, "POST /v1/topics/orders/messages", http.StatusUnauthorized},
	} {
		for kind, rest := range map[string]string{"sized": sized, "chunked": chunked} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				w := test.h.dial(t).say(test.start + " HTTP/1.1\nHost: x\n" + rest)
				if status := w.status(); status != test.status {
					t.Errorf("got %d, want %d", status, test.status)
				}
				w.closed()
			})
		}
	}
	t.Cleanup(func() {
		if counts, err := storetest.Collect(storetest.Inspector(t, store).Topics(t.Context())); err == nil && len(counts) > 0 {
			t.Errorf("there are messages: %+v", counts)
		}
	})
}

// A slow body that comes in time is read; its deadline does not outlive it.
func TestBodyDeadlineEndsWithBody(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{Body: haste})
	w := h.dial(t)
	for range 2 {
		w.say("POST /v1/topics/orders/messages HTTP/1.1\nHost: x\nContent-Length: 3\n\na").say("b").say("c")
		if status := w.status(); status != http.StatusCreated {
			t.Fatalf("got %d", status)
		}
		w.say("POST /v1/topics/none/claim?wait=3s HTTP/1.1\nHost: x\nContent-Length: 0\n\n")
		if status := w.status(); status != http.StatusOK {
			t.Fatalf("a poll on the same connection got %d", status)
		}
	}
}

// The same over HTTP/2, whose streams have deadlines of their own.
func TestSlowOverHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	h := serve(t, storetest.Open(t), httpapi.Options{CertFile: cert, KeyFile: key}, hasty)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, Timeout: storetest.Deadline}
	post := func(path string, body io.Reader) *http.Response {
		r, err := c.Post("https://"+h.addr+path, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.ProtoMajor != 2 {
			t.Fatalf("it is %s", r.Proto)
		}
		return r
	}
	stuck, end := io.Pipe()
	defer end.Close()
	if r := post("/v1/topics/orders/messages", stuck); r.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stops: %d", r.StatusCode)
	}
	if r := post("/v1/topics/orders/messages", strings.NewReader("x")); r.StatusCode != http.StatusCreated {
		t.Errorf("after it: %d", r.StatusCode)
	}
	if r := post("/v1/topics/none/claim?wait=3s", nil); r.StatusCode != http.StatusOK {
		t.Errorf("a poll that outlasts every deadline: %d", r.StatusCode)
	}
}

// certificate makes a certificate for tests.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = dir+"/cert.pem", dir+"/key.pem"
	out, err := exec.CommandContext(t.Context(), "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
		"-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", cert).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v %s", err, out)
	}
	return cert, key
}

// An answer that nobody reads ends its connection, and delays no other client.
func TestAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, hasty)
	var big []notify.Message
	for range 60 {
		big = append(big, notify.Message{Topic: "orders", Body: make([]byte, notify.DefaultMaxBody), Delay: time.Hour})
	}
	storetest.Publish(t, store, big...)
	w := h.dial(t)
	w.say("GET /v1/topics/orders/messages?limit=60 HTTP/1.1\nHost: x\n\n")
	h.want(client(t), http.StatusOK, "GET", "/healthz", "")
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

// Bytes that two servers could read as different requests are refused.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, hasty)
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
		t.Run(name, func(t *testing.T) {
			w := h.dial(t).say("POST /v1/topics/orders/ack HTTP/1.1\nHost: x\n" + head + "\n\n0\n\n" + inner)
			if status := w.status(); status < 400 || status == http.StatusInternalServerError {
				t.Errorf("got %d", status)
			}
			w.closed()
		})
	}
	if counts, err := storetest.Collect(storetest.Inspector(t, store).Topics(t.Context())); err != nil || len(counts) > 0 {
		t.Errorf("published: %+v %v", counts, err)
	}
}

// With both a length and chunks, net/http ignores the length, as RFC 9112 allows, and
// hides it from handlers, so it cannot be refused here.
func TestLengthBesideChunks(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, hasty)
	w := h.dial(t).say("POST /v1/topics/orders/messages?id=m HTTP/1.1\nHost: x\nContent-Length: 400\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n")
	if status := w.status(); status != http.StatusCreated {
		t.Errorf("got %d", status)
	}
	if info, err := storetest.Inspector(t, store).Inspect(t.Context(), "orders", "m"); err != nil || string(info.Body) != "x" {
		t.Errorf("the body is %q, %v", info.Body, err)
	}
}

// silentConns is how many connections send nothing. Both their ends are in this process,
// whose limit of open files may be 20,000 or less.
const silentConns = 4000

func TestConnectionsThatSendNothing(t *testing.T) {
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{Header: 3 * time.Second})
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	c := client(t)
	for i := range silentConns {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
		if i%500 == 0 {
			h.want(c, http.StatusCreated, "POST", "/v1/topics/orders/messages", "x")
		}
	}
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(storetest.Deadline))
		if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != io.EOF {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	h.want(c, http.StatusCreated, "POST", "/v1/topics/orders/messages", "x")
}
