package httpapi_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A host is a gateway that serves on loopback.
type host struct {
	*httpapi.Gate
	t     testing.TB
	store *notify.Store
	port  int
	addr  string
	stop  func()           // stops it, and waits until it has stopped
	pages *httptest.Server // serves the page that a browser opens; nil: none
}

// serve runs a gateway at a port that another one may use after it.
func serve(t testing.TB, store *notify.Store, o httpapi.Options, timing httpapi.Timing) *host {
	t.Helper()
	return serveAt(t, store, o, timing, storetest.Port(t))
}

func serveAt(t testing.TB, store *notify.Store, o httpapi.Options, timing httpapi.Timing, port int) *host {
	t.Helper()
	gate, err := httpapi.NewTimed(store, o, timing)
	storetest.Must(t, err)
	storetest.Vacated(t, port) // if it is that of a host that stopped
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	storetest.Must(t, err)
	h := &host{Gate: gate, t: t, store: store, port: port, addr: l.Addr().String()}
	h.stop = storetest.Run(t, func(ctx context.Context) error { return gate.Run(ctx, l) })
	return h
}

// carry runs a carrier on a store.
func carry(t testing.TB, store *notify.Store) *carrier.Carrier {
	t.Helper()
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MaxLease}) // one term
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	return c
}

// heardBy returns the epochs of the carriers that a carrier hears.
func heardBy(c *carrier.Carrier) func() []int64 {
	return func() (epochs []int64) {
		for _, state := range c.States() {
			epochs = append(epochs, state.Heard)
		}
		return epochs
	}
}

func (h *host) url(path string) string { return "http://" + h.addr + path }

// client returns a client with connections of its own, which are closed with the test.
func client(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * storetest.Deadline}
}

// A reply is an answer, fully read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request. An error is that of the connection.
func (h *host) send(c *http.Client, method, path, body string) (reply, error) {
	request, err := http.NewRequest(method, h.url(path), strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	response, err := c.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, data}, err
}

// want sends a request that must be answered with a status.
func (h *host) want(c *http.Client, status int, method, path, body string) reply {
	h.t.Helper()
	got, err := h.send(c, method, path, body)
	storetest.Must(h.t, err)
	if got.status != status {
		h.t.Fatalf("%s %s: got %d %s, want %d", method, path, got.status, got.body, status)
	}
	return got
}

// claimed is the answer of a claim.
type claimed struct {
	messages []api.Delivery
	status   int
	err      error
}

// claim claims in the background.
func (h *host) claim(c *http.Client, topic, query string) <-chan claimed {
	return h.claimAt(c, "/v1/topics/"+topic+"/claim?"+query)
}

// claimAt claims at an address in the background.
func (h *host) claimAt(c *http.Client, path string) <-chan claimed {
	got := make(chan claimed, 1)
	go func() {
		r, err := h.send(c, "POST", path, "")
		one := claimed{status: r.status, err: err}
		if err == nil && r.status == http.StatusOK {
			var all api.Claimed
			one.err = json.Unmarshal(r.body, &all)
			one.messages = all.Messages
		}
		got <- one
	}()
	return got
}

// ids returns the ids of the messages of a claim, which must have succeeded.
func ids(t testing.TB, c claimed) []string {
	t.Helper()
	if c.err != nil || c.status != http.StatusOK {
		t.Fatalf("the claim ended with %d, %v", c.status, c.err)
	}
	all := []string{}
	for _, m := range c.messages {
		all = append(all, m.ID)
	}
	return all
}

// waiting waits until so many polls wait.
func (h *host) waiting(n int64) {
	h.t.Helper()
	storetest.Eventually(h.t, fmt.Sprintf("%d polls wait", n), func() bool { return h.Stats().Polls == n })
}

// A wire is a connection whose bytes the test writes.
type wire struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (h *host) dial(t testing.TB) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	storetest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * storetest.Deadline))
	return &wire{Conn: conn, t: t, r: bufio.NewReader(conn)}
}

// reset breaks the connection, and waits until the host has noticed: until then it could write an answer to nobody.
func (w *wire) reset() {
	w.t.Helper()
	host, port := w.RemoteAddr().(*net.TCPAddr).Port, w.LocalAddr().(*net.TCPAddr).Port
	established := fmt.Appendf(nil, ":%04X 0100007F:%04X 01 ", host, port)
	stands := func() bool {
		all, err := os.ReadFile("/proc/net/tcp")
		return err == nil && bytes.Contains(all, established)
	}
	if !stands() {
		w.t.Fatalf("the host has no connection from port %d", port)
	}
	_ = w.Conn.(*net.TCPConn).SetLinger(0)
	w.Close()
	storetest.Eventually(w.t, "the reset arrives", func() bool { return !stands() })
}

// say writes a text, in which \n stands for the end of a line.
func (w *wire) say(text string) *wire {
	w.t.Helper()
	storetest.Must(w.t, storetest.ErrOf(io.WriteString(w, strings.ReplaceAll(text, "\n", "\r\n"))))
	return w
}

// status reads an answer with its body and returns its status.
func (w *wire) status() int {
	w.t.Helper()
	response, err := http.ReadResponse(w.r, nil)
	storetest.Must(w.t, err)
	defer response.Body.Close()
	storetest.Must(w.t, storetest.ErrOf(io.Copy(io.Discard, response.Body)))
	return response.StatusCode
}

// closed waits until the other side has closed the connection.
func (w *wire) closed() {
	w.t.Helper()
	_, err := io.Copy(io.Discard, w.r)
	if n, ok := err.(net.Error); ok && n.Timeout() {
		w.t.Fatal("the connection is still open")
	}
}

// An event is a server-sent event, or a comment.
type event struct{ id, name, data, comment string }

// A stream is a client of server-sent events, which reads by the rules of
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
// and also keeps comments.
type stream struct {
	t      testing.TB
	events chan event
	last   string // id to resume with; read it once events is closed
	Close  func() // closes the stream, and waits until it is gone
}

// listen opens a stream.
func (h *host) listen(c *http.Client, path, lastID string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, "GET", h.url("/v1/topics/"+path), nil)
	storetest.Must(h.t, err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	own := *c
	own.Timeout = 0
	response, err := own.Do(request)
	storetest.Must(h.t, err)
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		h.t.Fatalf("listen %s: %d %s %s", path, response.StatusCode, kind, text)
	}
	s := &stream{t: h.t, events: make(chan event, 10_000), last: lastID}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.events)
		s.read(response.Body)
	}()
	s.Close = func() {
		cancel()
		response.Body.Close()
		<-done
	}
	h.t.Cleanup(s.Close)
	return s
}

func (s *stream) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	var next event
	id, data := s.last, []string(nil)
	for lines.Scan() {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			s.last = id
			if len(data) > 0 {
				next.id, next.name, next.data = id, cmp.Or(next.name, "message"), strings.Join(data, "\n")
				s.events <- next
			}
			next, data = event{}, nil
		case field == "":
			s.events <- event{comment: ":" + value}
		case field == "id":
			id = value
		case field == "event":
			next.name = value
		case field == "data":
			data = append(data, value)
		}
	}
}

// next waits for the next event, and skips comments.
func (s *stream) next() event {
	s.t.Helper()
	for {
		e := storetest.Receive(s.t, "an event", s.events)
		if e == (event{}) {
			s.t.Fatal("the stream has ended")
		}
		if e.comment == "" {
			return e
		}
	}
}

// broadcast waits for the next event, which must be a broadcast.
func (s *stream) broadcast() api.Broadcast {
	s.t.Helper()
	e := s.next()
	var b api.Broadcast
	if e.name != "broadcast" {
		s.t.Fatalf("got %+v, want a broadcast", e)
	}
	storetest.Must(s.t, json.Unmarshal([]byte(e.data), &b))
	return b
}

// ended waits for the end and returns the id to resume with.
func (s *stream) ended() string {
	s.t.Helper()
	for {
		if e := storetest.Receive(s.t, "the end of the stream", s.events); e == (event{}) {
			return s.last
		}
	}
}

// send broadcasts bodies; a carrier carries them.
func send(t testing.TB, store *notify.Store, topic string, bodies ...string) {
	t.Helper()
	all := make([]notify.Message, len(bodies))
	for i, body := range bodies {
		all[i] = notify.Message{Topic: topic, Broadcast: true, Body: []byte(body)}
	}
	storetest.Publish(t, store, all...)
}

// pubsubs counts the subscribed connections of the user.
func pubsubs(t testing.TB, u *storetest.User) int {
	t.Helper()
	text, err := u.Admin.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB").Text()
	storetest.Must(t, err)
	return strings.Count(text, " user="+u.Name+" ")
}

// closeWrite closes the writing side of a connection.
func closeWrite(t testing.TB, w *wire) {
	t.Helper()
	storetest.Must(t, w.Conn.(*net.TCPConn).CloseWrite())
}

// until returns the end of the lease that a claim gave.
func until(d api.Delivery) time.Time { return time.UnixMicro(int64(d.Receipt)) }
