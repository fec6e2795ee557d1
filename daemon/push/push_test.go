package push_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const (
	topic  = "order.paid"
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// An endpoint receives pushes.
type endpoint struct {
	*httptest.Server
	got chan *received

	mu     sync.Mutex
	answer http.HandlerFunc
}

// A received is a request that an endpoint received.
type received struct {
	*http.Request
	body []byte
}

// carry has a carrier of a store run until the test ends.
func carry(t testing.TB, s *notify.Store) {
	t.Helper()
	carriertest.Run(t, s, carrier.Options{Lease: carrier.MaxLease})
}

// newEndpoint starts an endpoint that answers 200 until says is called.
func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	return newEndpointAt(t, "127.0.0.1:0")
}

// newEndpointAt starts one at an address of this machine.
func newEndpointAt(t testing.TB, address string) *endpoint {
	t.Helper()
	l, err := net.Listen("tcp", address)
	storetest.Must(t, err)
	e := &endpoint{got: make(chan *received, 10_000), answer: func(http.ResponseWriter, *http.Request) {}}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e.got <- &received{r, body}
		e.mu.Lock()
		answer := e.answer
		e.mu.Unlock()
		answer(w, r)
	}))
	e.Listener.Close()
	e.Listener = l
	e.Start()
	t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

func (e *endpoint) says(answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

// status returns what answers a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// run runs a pusher that may push to this machine.
func run(t testing.TB, s *notify.Store) (p *push.Pusher, stop func()) {
	t.Helper()
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute, Version: "1.2"})
	storetest.Must(t, err)
	return p, storetest.Run(t, p.Run)
}

// put adds or replaces a push.
func put(t testing.TB, s *notify.Store, p store.Push) {
	t.Helper()
	if p.Secrets == nil {
		p.Secrets = []string{secret}
	}
	storetest.Must(t, s.Home().ChangePush(t.Context(), p.Name, func(*store.Push) (*store.Push, error) { return &p, nil }))
}

// get returns a push.
func get(t testing.TB, s *notify.Store, name string) store.Push {
	t.Helper()
	p, err := s.Home().Push(t.Context(), name)
	storetest.Must(t, err)
	return p
}

// opened returns a store with a carrier, a pusher, and a push of the topic to an endpoint.
func opened(t testing.TB) (*notify.Store, *endpoint, *push.Pusher) {
	t.Helper()
	return openedWith(t, store.Push{})
}

// openedWith is opened for a push with some fields set.
func openedWith(t testing.TB, of store.Push) (*notify.Store, *endpoint, *push.Pusher) {
	t.Helper()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	of.Name, of.URL = "crm", e.URL+"/hook?a=b"
	if of.Topics == nil {
		of.Topics = []string{topic}
	}
	put(t, s, of)
	p, _ := run(t, s)
	return s, e, p
}

// gone waits until a message is acknowledged.
func gone(t testing.TB, s *notify.Store, id string) {
	t.Helper()
	storetest.Eventually(t, id+" is acknowledged", func() bool {
		_, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, id)
		return errors.Is(err, notify.ErrNotFound)
	})
}

func info(t testing.TB, s *notify.Store, id string) notify.Info {
	t.Helper()
	i, err := storetest.Inspector(t, s).Inspect(t.Context(), topic, id)
	storetest.Must(t, err)
	return i
}

// A message is a signed request with its body as it is, and acknowledged by the answer.
func TestPush(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	m := notify.Message{
		Topic: topic, ID: "a~1", Body: []byte("verbatim \x00\xff\r\n"), ContentType: "text/plain; charset=utf-8", Key: "acct-7", Delay: 300 * time.Millisecond,
		Headers: map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=1", "Shop": "ä 1"},
	}
	sent, err := storetest.Publisher(t, s).Publish(t.Context(), m)
	storetest.Must(t, err)
	r := storetest.Receive(t, "it is pushed", e.got)
	if now, err := s.Client().Time(t.Context()).Result(); err != nil || now.Before(sent.Due) {
		t.Errorf("it came at %v, %v, and is due %v", now, err, sent.Due)
	}
	if r.Method != http.MethodPost || r.RequestURI != "/hook?a=b" || string(r.body) != string(m.Body) {
		t.Errorf("got %s %s %q", r.Method, r.RequestURI, r.body)
	}
	for name, want := range map[string]string{
		"webhook-id": topic + ":a~1", "Content-Type": m.ContentType, "Bellhop-Topic": topic, "Bellhop-Id": "a~1", "Bellhop-Attempt": "1", "Bellhop-Key": "acct-7",
		"Bellhop-Due": sent.Due.UTC().Format(time.RFC3339Nano), "Bellhop-Header-Shop": "ä 1", "traceparent": m.Headers["traceparent"], "tracestate": "a=1", "User-Agent": "Bellhop/1.2", "Bellhop-Receipt": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	gone(t, s, "a~1")
}

// The reference library of Standard Webhooks accepts each signature, with either of two secrets, and refuses what was changed.
func TestSignature(t *testing.T) {
	t.Parallel()
	s, e, _ := openedWith(t, store.Push{Secrets: []string{secret, other}})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", Body: []byte(`{"total":12}`)})
	r := storetest.Receive(t, "it is pushed", e.got)
	for key, ok := range map[string]bool{secret: true, other: true, "whsec_" + strings.Repeat("A", 32): false} {
		w, err := standardwebhooks.NewWebhook(key)
		storetest.Must(t, err)
		if err := w.Verify(r.body, r.Header); (err == nil) != ok {
			t.Errorf("%s: %v", key, err)
		}
		if err := w.Verify(append(r.body, ' '), r.Header); err == nil {
			t.Errorf("%s: a changed body is accepted", key)
		}
	}
}

// No request can be taken apart as one with another id, time and body: a dot that a time could follow is none in webhook-id.
func TestSignatureIsOfOneID(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	const at = "1732128000"
	for id, want := range map[string]string{
		"a":                           "a",
		"a.17":                        "a.17",
		"a.x" + at:                    "a.x" + at,
		at:                            at,
		"a." + at:                     "a%2E" + at,
		"a." + at + "." + at + ".x.1": "a%2E" + at + "%2E" + at + ".x.1",
	} {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: id, Body: []byte("200.x")})
		r := storetest.Receive(t, "it is pushed", e.got)
		w, err := standardwebhooks.NewWebhook(secret)
		storetest.Must(t, err)
		if got := r.Header.Get("webhook-id"); got != topic+":"+want || r.Header.Get("Bellhop-Id") != id {
			t.Errorf("%s has the webhook-id %q and the id %q", id, got, r.Header.Get("Bellhop-Id"))
		}
		if err := w.Verify(r.body, r.Header); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Two pushers share the messages, each of which goes to one; when one of them ends the other has all.
func TestPushersShare(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	_, stop := run(t, s)
	const n = 500
	for i := range n {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: fmt.Sprintf("m%d", i)})
		if i == n/2 {
			stop()
		}
	}
	seen := make(map[string]int)
	for range n {
		seen[storetest.Receive(t, "the next is pushed", e.got).Header.Get("webhook-id")]++
	}
	if len(seen) != n {
		t.Errorf("%d of %d messages were pushed", len(seen), n)
	}
}

// Messages of a key are pushed one after the other, in their order, also over failures.
func TestKeysKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	storetest.Set(t, s, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(2 * time.Millisecond)})
	var mu sync.Mutex
	var done []string
	failed := make(map[string]bool)
	e.says(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Bellhop-Id")
		if !failed[id] { // the first attempt of each
			failed[id] = true
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		done = append(done, id)
	})
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("m%02d", i))
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: want[i], Key: "acct-7"})
	}
	gone(t, s, want[len(want)-1])
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(done, want) {
		t.Errorf("got %v", done)
	}
}

// A receiver that answers wrongly, hangs and closes in turn: each message is pushed at least once, and none is lost.
func TestBadReceiver(t *testing.T) {
	t.Parallel()
	s, e, _ := openedWith(t, store.Push{Timeout: 200 * time.Millisecond})
	storetest.Set(t, s, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(20 * time.Millisecond), Attempts: new(1000)})
	var met sync.Map
	e.says(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Bellhop-Id")
		if _, again := met.LoadOrStore(id, true); again { // an endpoint that goes on failing is asked ever more rarely
			return
		}
		switch number, _ := strconv.Atoi(id); number % 4 {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			<-r.Context().Done()
		case 2:
			panic(http.ErrAbortHandler)
		}
	})
	const n = 100
	for i := range n {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: fmt.Sprint(i)})
	}
	for i := range n {
		gone(t, s, fmt.Sprint(i))
	}
}
