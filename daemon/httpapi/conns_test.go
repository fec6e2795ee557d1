package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
	storetest.Must(t, third.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := third.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more is answered, or gets %v", err)
	}
	storetest.Must(t, third.SetReadDeadline(time.Now().Add(storetest.Deadline)))
	second.Close()
	third.wantOK()
	h.dial(t).say(getHealth).wantOK() // in place of the third
	third.closed()
	h.waiting(1)
	storetest.Must(t, first.SetReadDeadline(time.Now()))
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

// A token whose bodies come byte by byte, on as many connections as there are, and on others in place of those that are closed,
// keeps no other token out.
func TestSlowBodiesOfATokenMakeWay(t *testing.T) {
	t.Parallel()
	const conns = 200
	tokens := file(t, "tokens", "slow "+slowToken+" publish >\nother "+otherToken+" publish >\n")
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: conns, TokensFile: tokens}, httpapi.Timing{Header: time.Hour, Memory: time.Hour, Body: time.Hour, Closed: 200 * time.Millisecond})
	heads := []string{
		announce("/v1/topics/orders/messages", 100_000, ""),
		announce("/v1/messages", 16<<20, ""), // only some have memory
		"POST /v1/messages HTTP/1.1\nHost: a\nAuthorization: Bearer " + slowToken + "\nTransfer-Encoding: chunked\n\n186a0\n",
	}
	var crowd sync.WaitGroup
	t.Cleanup(crowd.Wait) // after all connections are closed
	for i := range conns {
		w := h.dial(t).say(announce("/v1/messages", 100_000, "Expect: 100-continue\n"))
		if status := w.status(); status != http.StatusContinue {
			t.Fatalf("got %d", status)
		}
		crowd.Go(func() { h.trickle(t, w.Conn, heads[i%len(heads)]) })
	}
	for range 20 {
		h.want(clientOf(t, otherToken), http.StatusCreated, "POST", "/v1/topics/orders/messages", "x")
	}
}

// trickle sends bytes, and begins again with a head on another connection when one is closed, until the test ends.
func (h *host) trickle(t *testing.T, conn net.Conn, head string) {
	for t.Context().Err() == nil {
		open := conn
		done := context.AfterFunc(t.Context(), func() { open.Close() })
		for err := error(nil); err == nil; time.Sleep(20 * time.Millisecond) {
			_, err = io.WriteString(conn, " ")
		}
		done()
		conn.Close()
		var err error
		if conn, err = net.Dial("tcp", h.addr); err != nil {
			return // the gateway has stopped
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n"))
	}
	conn.Close()
}

// A body that brings enough is read in any crowd, and a slow one while slow ones take no more than half of the connections.
func TestBodiesThatStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{MaxConns: 4, MaxBody: 1 << 20})
		slow, brisk := b.body(20, 1), b.body(10, 64<<10)
		for range 5 { // others, idle or half a request, each of which may have to wait a second
			b.dial().say(getHealth).wantOK()
			b.dial().say("GET /healthz HTTP/1.1\n")
		}
		if len(slow)+len(brisk) > 0 {
			t.Error("one ended before the crowd")
		}
		var crowd []<-chan int
		for range 6 {
			crowd = append(crowd, b.body(20, 1))
			time.Sleep(time.Second / 4)
		}
		if got := <-brisk; got != http.StatusServiceUnavailable { // Redis is away
			t.Errorf("one that brings enough gets %d", got)
		}
		if got := <-slow; got != 0 {
			t.Errorf("the slow one gets %d", got)
		}
		for _, one := range crowd {
			<-one
		}
	})
}

// body sends a body of so many pieces of so many bytes, one in 900 ms, and returns the status of the answer; 0: it was cut off.
func (b *bubble) body(pieces, bytes int) <-chan int {
	w, got := b.dial(), make(chan int, 1)
	w.say(fmt.Sprintf("POST /v1/topics/orders/messages HTTP/1.1\nHost: a\nContent-Length: %d\n\n", pieces*bytes))
	go func() {
		for n, err := 0, error(nil); n < pieces && err == nil; n++ {
			time.Sleep(900 * time.Millisecond)
			_, err = io.WriteString(w, strings.Repeat("x", bytes))
		}
		status := 0
		if answer, err := http.ReadResponse(w.r, nil); err == nil {
			status = answer.StatusCode
		}
		got <- status
	}()
	return got
}

// The same with TLS.
func TestStrangersMakeWayOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: 1, CertFile: cert, KeyFile: key}, httpapi.Timing{Header: time.Hour, Idle: time.Hour})
	for range 3 {
		conn, err := tls.Dial("tcp", h.addr, &tls.Config{InsecureSkipVerify: true})
		storetest.Must(t, err)
		t.Cleanup(func() { conn.Close() })
		w := &wire{Conn: conn, t: t, r: bufio.NewReader(conn)}
		w.say(getHealth).wantOK()
	}
}

// The same over HTTP/2, whatever other requests the connection had.
func TestSlowBodiesMakeWayOverHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	h := serve(t, storetest.Open(t), httpapi.Options{MaxConns: 1, CertFile: cert, KeyFile: key}, httpapi.Timing{Body: time.Hour, Closed: 100 * time.Millisecond})
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	stuck, end := io.Pipe()
	t.Cleanup(func() { end.Close() })
	ended := make(chan error, 1)
	go func() {
		answer, err := client.Post("https://"+h.addr+"/v1/topics/orders/messages", "text/plain", stuck)
		if err == nil {
			answer.Body.Close()
			err = fmt.Errorf("it is answered with %d", answer.StatusCode)
		}
		ended <- err
	}()
	if _, err := end.Write([]byte("x")); err != nil { // once the connection stands
		t.Fatal(err)
	}
	answer, err := client.Get("https://" + h.addr + "/v1/topics")
	storetest.Must(t, err)
	answer.Body.Close()
	if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %d over %s", answer.StatusCode, answer.Proto)
	}
	other := h.dial(t)
	conn := tls.Client(other.Conn, &tls.Config{InsecureSkipVerify: true})
	(&wire{Conn: conn, t: t, r: bufio.NewReader(conn)}).say(getHealth).wantOK()
	if err := storetest.Receive(t, "the slow request ends", ended); err == nil || strings.Contains(err.Error(), "answered") {
		t.Errorf("it ends with %v", err)
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
