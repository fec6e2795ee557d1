package httpapi_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	getHealth = "GET /healthz HTTP/1.1\nHost: a\n\n"
	getTopics = "GET /v1/topics HTTP/1.1\nHost: a\nAuthorization: Bearer " + slowToken + "\n\n"
)

// serveWith serves one token over at most so many connections.
func serveWith(t *testing.T, conns int, timing httpapi.Timing) *host {
	t.Helper()
	tokens := file(t, "tokens", "one "+slowToken+" admin >\n")
	return serve(t, storetest.Open(t), httpapi.Options{MaxConns: conns, TokensFile: tokens}, timing)
}

// wantOK waits for an answer.
func (w *wire) wantOK() {
	w.t.Helper()
	if got := w.status(); got != 200 {
		w.t.Fatalf("got %d", got)
	}
}

// Clients above the limit wait until another one leaves, or has no request under way any more.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	h := serveWith(t, 2, httpapi.Timing{})
	poll := "POST /v1/topics/orders/claim?wait=1m HTTP/1.1\nHost: a\nAuthorization: Bearer " + slowToken + "\n\n"
	first, second := h.dial(t).say(poll), h.dial(t).say(poll)
	h.waiting(2)
	third := h.dial(t).say(getHealth)
	if err := third.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more is answered, or gets %v", err)
	}
	if err := third.SetReadDeadline(time.Now().Add(storetest.Deadline)); err != nil {
		t.Fatal(err)
	}
	second.Close()
	third.wantOK()
	h.dial(t).say(getHealth).wantOK() // in place of the third
	third.closed()
	h.waiting(1)
	if err := first.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the poll got %v", err)
	}
}

// Idle connections of strangers are closed for others before those of clients that showed
// a token, and there are never many of them.
func TestStrangersMakeWay(t *testing.T) {
	t.Parallel()
	h := serveWith(t, 8, httpapi.Timing{})
	var known, strangers []*wire
	for range 4 {
		w := h.dial(t).say(getTopics)
		w.wantOK()
		known = append(known, w)
	}
	for range 20 {
		w := h.dial(t).say(getHealth)
		w.wantOK()
		strangers = append(strangers, w)
	}
	left := func(all []*wire) (n int) {
		for _, w := range all {
			if w.isOpen() {
				n++
			}
		}
		return n
	}
	storetest.Eventually(t, "a quarter of all connections are those of strangers", func() bool { return left(strangers) == 2 })
	for _, w := range known {
		w.say(getTopics).wantOK()
	}
	for range 4 {
		w := h.dial(t).say(getTopics)
		w.wantOK()
		known = append(known, w)
	}
	storetest.Eventually(t, "those of strangers are closed", func() bool { return left(strangers) == 0 })
	if n := left(known); n != 8 {
		t.Errorf("%d of clients with a token are left", n)
	}
	h.dial(t).say(getTopics).wantOK()
	storetest.Eventually(t, "one of a client with a token is closed", func() bool { return left(known) == 7 })
}

// Whoever knows no more than the name of a token is a stranger.
func TestForgedCookiesMakeWay(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: 8, TokensFile: file(t, "tokens", "one "+slowToken+" admin >\n"), Console: true}, httpapi.Timing{})
	var forgers []*wire
	for range 8 {
		w := h.dial(t).say("GET /ui/ HTTP/1.1\nHost: a\nCookie: bellhop-login=one.x.99999999999.x\n\n")
		if got := w.status(); got != http.StatusSeeOther {
			t.Fatalf("got %d", got)
		}
		forgers = append(forgers, w)
	}
	storetest.Eventually(t, "only a quarter of all connections are theirs", func() (few bool) {
		n := 0
		for _, w := range forgers {
			if w.isOpen() {
				n++
			}
		}
		return n == 2
	})
}

// isOpen reports whether the other side has not closed an idle connection.
func (w *wire) isOpen() bool {
	_ = w.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := w.r.Peek(1)
	_ = w.SetReadDeadline(time.Now().Add(storetest.Deadline))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// A client that sends nothing, or half a header, is closed for others after a while.
func TestSilentClientsMakeWay(t *testing.T) {
	t.Parallel()
	h := serveWith(t, 2, httpapi.Timing{Header: time.Hour, Closed: 200 * time.Millisecond})
	for _, text := range []string{"", "GET /v1/topics HTTP/1.1\nHost: x\nX-A: "} {
		silent := []*wire{h.dial(t).say(text), h.dial(t).say(text)}
		for range silent {
			h.dial(t).say("GET /healthz HTTP/1.1\nHost: a\nConnection: close\n\n").wantOK()
		}
		silent[0].closed()
		silent[1].say("\n")
		silent[1].Close()
	}
	h.dial(t).say(getHealth + "GET /healthz HTTP/1.1\n").wantOK() // the header of the next request does not come either
	h.dial(t).say(getHealth + "GET /healthz HTTP/1.1\n").wantOK()
	h.dial(t).say(getTopics).wantOK()
}

// A stranger whose body does not come is closed for others after a while; a known client may take its time.
func TestSlowBodiesOfStrangersMakeWay(t *testing.T) {
	t.Parallel()
	h := serveWith(t, 3, httpapi.Timing{Header: time.Hour, Body: time.Hour, Closed: 200 * time.Millisecond})
	const start = "POST /v1/messages HTTP/1.1\nHost: a\nContent-Length: 2\n"
	known := h.dial(t).say(start + "Expect: 100-continue\nAuthorization: Bearer " + slowToken + "\n\n")
	if status := known.status(); status != http.StatusContinue { // before it is known it makes way, too
		t.Fatalf("it answers %d", status)
	}
	known.say("{")
	for _, text := range []string{start + "\n{", "POST /healthz HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n5\nhe", start + "Authorization: Bearer unknown\n\n{"} {
		slow := []*wire{h.dial(t).say(text), h.dial(t).say(text)}
		for range slow {
			h.dial(t).say("GET /healthz HTTP/1.1\nHost: a\nConnection: close\n\n").wantOK()
		}
		for _, w := range slow {
			w.Close()
		}
	}
	known.say("}").wantOK()
}

// The same with TLS.
func TestStrangersMakeWayOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: 1, CertFile: cert, KeyFile: key}, httpapi.Timing{Header: time.Hour, Idle: time.Hour})
	for range 3 {
		conn, err := tls.Dial("tcp", h.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		w := &wire{Conn: conn, t: t, r: bufio.NewReader(conn)}
		w.say(getHealth).wantOK()
	}
}

// A gateway stops while clients wait for a connection.
func TestStopWhileOthersWait(t *testing.T) {
	t.Parallel()
	h := serveWith(t, 1, httpapi.Timing{})
	poll := h.dial(t).say("POST /v1/topics/orders/claim?wait=1m HTTP/1.1\nHost: a\nAuthorization: Bearer " + slowToken + "\n\n")
	h.waiting(1)
	waits := h.dial(t).say(getHealth)
	stop(t, h)
	poll.wantOK()
	waits.closed()
}

// A header that is larger than any needed one is refused before the request is read.
func TestLargeHeader(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	w := h.dial(t)
	w.say("GET /healthz HTTP/1.1\nHost: a\nX-A: " + strings.Repeat("x", 24<<10))
	if response, err := http.ReadResponse(w.r, nil); err == nil && response.StatusCode != http.StatusRequestHeaderFieldsTooLarge { // else it is closed with the rest unread
		t.Errorf("got %d", response.StatusCode)
	}
}
