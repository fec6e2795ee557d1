package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A stop ends polls with what they have, and streams where they are. It answers later
// requests with 503, and an EventSource not at all. A body on its way is still read.
func TestQuiesce(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{Closed: time.Hour}) // the stop waits for what is on its way
	c := client(t)
	polls := []<-chan claimed{h.claim(c, "orders", "wait=5m"), h.claim(c, "orders", "wait=5m&min_age=1s")}
	h.waiting(2)
	s := h.listen(c, "news/broadcasts", "")
	idle := h.dial(t).say("GET /healthz HTTP/1.1\nHost: x\n\n")
	idle.status()
	slow := h.dial(t).say("POST /v1/topics/slow/messages?id=m HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: 2\n\n")
	if status := slow.status(); status != http.StatusContinue { // the body is awaited
		t.Fatalf("got %d", status)
	}
	slow.say("a")
	late := h.dial(t).say("GET /v1/topics HTTP/1.1\n") // its header is on its way
	health := h.dial(t).say("GET /healthz HTTP/1.1\n")
	ready := h.dial(t).say("GET /readyz HTTP/1.1\n")
	source := h.dial(t).say("GET /v1/topics/news/broadcasts HTTP/1.1\nAccept: text/event-stream\n")
	h.want(c, http.StatusOK, "GET", "/healthz", "") // all of them are accepted
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Quiesce(t.Context())
	}()
	for _, poll := range polls {
		if got := ids(t, storetest.Receive(t, "the poll's answer", poll)); len(got) != 0 {
			t.Errorf("the poll got %v", got)
		}
	}
	s.ended()
	idle.closed()
	for _, one := range []*wire{late, ready} {
		r, err := http.ReadResponse(one.say("Host: x\n\n").r, nil)
		storetest.Must(t, err)
		r.Body.Close()
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !r.Close {
			t.Errorf("got %d %v", r.StatusCode, r.Header)
		}
		one.closed()
	}
	if r, err := http.ReadResponse(source.say("Host: x\n\n").r, nil); err == nil {
		r.Body.Close()
		t.Errorf("an EventSource is answered %d, and would not connect again", r.StatusCode)
	}
	if status := health.say("Host: x\n\n").status(); status != http.StatusOK {
		t.Errorf("health during the stop: %d", status)
	}
	if status := slow.say("b").status(); status != http.StatusCreated {
		t.Errorf("the body on its way: %d", status)
	}
	storetest.Receive(t, "the end", done)
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Error("it still accepts connections")
	}
	h.stop()
}

func TestQuiesceIsBounded(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	w := h.dial(t).say("POST /v1/topics/slow/messages HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
	if got := w.status(); got != http.StatusContinue { // it reads the body by now
		t.Fatalf("got %d", got)
	}
	w.say("a")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h.Quiesce(ctx)
	if ctx.Err() == nil {
		t.Error("it did not wait for the body")
	}
	h.stop()
	w.closed()
}

// Unused connections do not delay a stop for the 5 s that net/http gives them.
func TestQuiesceClosesUnused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, httpapi.Options{})
		w := b.dial()
		b.dial().say(getHealth).wantOK()
		began := time.Now()
		b.Quiesce(t.Context())
		if took := time.Since(began); took >= 2*time.Second {
			t.Errorf("it waited for %v for a connection that sent nothing", took)
		}
		w.closed()
		b.stop()
	})
}

// Readiness includes the way of a ring: it is lost with pub/sub, even if all else works.
func TestReadyzWithoutPubSub(t *testing.T) {
	t.Parallel()
	user := storetest.NewUser(t)
	h := serve(t, user.Store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	status := func(want int) {
		t.Helper()
		storetest.Eventually(t, fmt.Sprintf("readyz answers %d", want), func() bool {
			r, err := h.send(c, "GET", "/readyz", "")
			return err == nil && r.status == want
		})
		h.want(c, http.StatusOK, "GET", "/healthz", "")
	}
	status(http.StatusOK)
	// New subscriptions are refused from now on, and present ones are cut off.
	user.ACL(t, "-subscribe", "-ssubscribe")
	storetest.Must(t, user.Admin.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub", "USER", user.Name).Err())
	status(http.StatusServiceUnavailable)
	h.want(c, http.StatusCreated, "POST", "/v1/topics/orders/messages", "x")
	user.ACL(t, "+subscribe", "+ssubscribe")
	status(http.StatusOK)
}

// Without a carrier publishes still work: the daemon is ready, and reports that no carrier's beat arrives.
func TestReadyzWithoutCarrier(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MinLease})
	storetest.Must(t, err)
	h := serve(t, store, httpapi.Options{Heard: heardBy(c)}, httpapi.Timing{})
	says := func(want string) {
		t.Helper()
		storetest.Eventually(t, "readyz answers "+want, func() bool {
			r, err := h.send(client(t), "GET", "/readyz", "")
			return err == nil && r.status == http.StatusOK && strings.Contains(string(r.body), want)
		})
	}
	says(`{"status":"ready","carrier":null}`)
	storetest.Run(t, c.Run)
	says(`{"status":"ready","carrier":{"epoch":`) // of whichever of its terms: the lease is short
	// A carrier is elected that never beats.
	for _, keys := range store.KeysOfAll() {
		storetest.Must(t, store.Client().Set(t.Context(), keys.Carrier(), "99 1 600000 silent", time.Hour).Err())
	}
	says(`{"status":"ready","carrier":null}`)
}

// Liveness includes the carrier's loop: a call that blocks it shows.
func TestHealthzTellsWhatHangs(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	blocked, free := make(chan struct{}), make(chan struct{})
	c, err := carrier.New(store, carrier.Options{OnCarried: func(carrier.Carried) {
		select {
		case <-blocked:
		default:
			close(blocked)
		}
		<-free
	}})
	storetest.Must(t, err)
	const bound = 3 * time.Second // the daemon's is longer: calls to an unreachable Redis take their time
	h := serve(t, store, httpapi.Options{Alive: func() error {
		for _, s := range c.States() {
			if !s.Progress.IsZero() && time.Since(s.Progress) > bound {
				return errors.New("a loop hangs")
			}
		}
		return nil
	}}, httpapi.Timing{})
	storetest.Run(t, c.Run)
	answers := func(status int) {
		t.Helper()
		storetest.Eventually(t, fmt.Sprintf("healthz answers %d", status), func() bool {
			r, err := h.send(client(t), "GET", "/healthz", "")
			return err == nil && r.status == status
		})
	}
	answers(http.StatusOK)
	storetest.Publish(t, store, notify.Message{Topic: "orders", Body: []byte("x"), Delay: time.Millisecond})
	storetest.Receive(t, "the call that blocks", blocked)
	answers(http.StatusServiceUnavailable)
	close(free)
	answers(http.StatusOK)
}

// Two daemons are restarted in turn under load: a client that tries the other one after
// a failed request loses nothing.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	var mu sync.Mutex
	hosts := []*host{serve(t, store, httpapi.Options{}, httpapi.Timing{}), serve(t, store, httpapi.Options{}, httpapi.Timing{})}
	c := client(t)
	// do sends a request to one host after the other until one answers it.
	do := func(ctx context.Context, i int, send func(h *host) (int, error)) bool {
		for ; ctx.Err() == nil; i++ {
			mu.Lock()
			h := hosts[i%2]
			mu.Unlock()
			switch status, err := send(h); {
			case err != nil || status == http.StatusServiceUnavailable:
			case status/100 == 2 || status == http.StatusConflict: // an earlier attempt succeeded
				return true
			default:
				t.Errorf("a request was answered with %d", status)
				return false
			}
		}
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	var published, done atomic.Int64
	for range 4 {
		all.Go(func() { // publishers
			for i := 0; ctx.Err() == nil; i++ {
				id := notify.NewID()
				if do(context.Background(), i, func(h *host) (int, error) {
					r, err := h.send(c, "POST", "/v1/topics/orders/messages?delay=5ms&id="+id, "x")
					return r.status, err
				}) {
					published.Add(1)
				}
			}
		})
	}
	working, stopWork := context.WithCancel(context.Background())
	defer stopWork()
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := w; working.Err() == nil; i++ {
				do(working, i, func(h *host) (int, error) {
					got := <-h.claim(c, "orders", "wait=1s&max=10&lease=2s")
					for _, m := range got.messages {
						if do(context.Background(), i, func(h *host) (int, error) {
							r, err := h.send(c, "POST", fmt.Sprintf("/v1/topics/orders/messages/%s/ack?receipt=%d", m.ID, m.Receipt), "")
							return r.status, err
						}) {
							done.Add(1)
						}
					}
					return got.status, got.err
				})
			}
		})
	}
	for i := range 4 {
		before := published.Load()
		storetest.Eventually(t, "the load goes on", func() bool { return published.Load() > before+50 })
		mu.Lock()
		h := hosts[i%2]
		mu.Unlock()
		stop(t, h)
		next := serveAt(t, store, httpapi.Options{}, httpapi.Timing{}, h.port)
		mu.Lock()
		hosts[i%2] = next
		mu.Unlock()
	}
	cancel()
	all.Wait()
	storetest.Eventually(t, "every message is done", func() bool {
		counts, err := storetest.Count(store, "orders")
		return err == nil && counts.Acked == published.Load() && counts.Scheduled+counts.Ready+counts.Leased == 0
	})
	stopWork()
	workers.Wait()
	if done.Load() < published.Load() {
		t.Errorf("%d of %d are done", done.Load(), published.Load())
	}
}
