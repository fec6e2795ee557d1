package push_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// A connection of HTTP/2 that is cut without a word is noticed, and made anew.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 10_000)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := storetest.NewProxy(t, server.Listener.Addr().String())
	p, err := push.New(storetest.Open(t), push.Options{Allow: "127.0.0.1"})
	storetest.Must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	push.Trust(p, pool)
	of := store.Push{Name: "crm", Topics: []string{topic}, URL: "https://" + proxy.Address(), Secrets: []string{secret}, Timeout: 300 * time.Millisecond}
	send := func() bool {
		a, err := p.Send(t.Context(), &of, subscribers.Delivery{Topic: topic, ID: "a"})
		return err == nil && a.IsDone()
	}
	storetest.Eventually(t, "it is sent", send)
	if got := <-protocols; got != "HTTP/2.0" {
		t.Fatalf("it is sent by %s", got)
	}
	proxy.Silence(true)
	storetest.Eventually(t, "nothing is answered", func() bool { return !send() })
	proxy.Silence(false)
	storetest.Eventually(t, "it is sent over another connection", send)
}

// beside returns a store with a carrier, a pusher, and many pushes, each of the topic of its number to a path of one endpoint. Requests for
// topic 0 get no answer before release is called.
func beside(t testing.TB, pushes int) (s *notify.Store, e *endpoint, release func()) {
	t.Helper()
	s, e = storetest.Open(t), newEndpoint(t)
	released := make(chan struct{})
	release = func() { close(released) }
	e.says(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/0" {
			<-released
		}
	})
	carry(t, s)
	for i := range pushes {
		put(t, s, store.Push{
			Name: fmt.Sprint("push-", i), Topics: []string{numbered(i)}, URL: fmt.Sprint(e.URL, "/", i), Timeout: record.MaxLease,
		})
	}
	run(t, s)
	return s, e, release
}

func numbered(i int) string { return fmt.Sprint("topic.", i) }

// hang has an endpoint that does not answer take all that a push may have in flight, and leaves more of its messages ready.
func hang(t testing.TB, s *notify.Store, e *endpoint) {
	t.Helper()
	for i := range 2 * store.DefaultPushInFlight {
		storetest.Publish(t, s, notify.Message{Topic: numbered(0), ID: fmt.Sprint("m", i)})
	}
	for range store.DefaultPushInFlight {
		storetest.Receive(t, "all in flight are taken", e.got)
	}
}

// While one endpoint hangs, with all taken that may be in flight, the other pushes go on; and so does this one when it answers.
func TestOthersGoOnBesideOneThatHangs(t *testing.T) {
	t.Parallel()
	s, e, release := beside(t, 20)
	hang(t, s, e)
	const each = 50
	for i := range each {
		for n := 1; n < 20; n++ {
			storetest.Publish(t, s, notify.Message{Topic: numbered(n), ID: fmt.Sprint("m", i)})
		}
	}
	for range 19 * each {
		if r := storetest.Receive(t, "the others are pushed", e.got); r.URL.Path == "/0" {
			t.Fatalf("%s is pushed beside as many as may be in flight", r.Header.Get("webhook-id"))
		}
	}
	release()
	for range store.DefaultPushInFlight {
		if r := storetest.Receive(t, "it goes on", e.got); r.URL.Path != "/0" {
			t.Errorf("%s is pushed again", r.Header.Get("webhook-id"))
		}
	}
}

// An endpoint of which one request hangs, and that fails meanwhile, is asked again beside that request.
func TestFailingBesideOneThatHangs(t *testing.T) {
	t.Parallel()
	s, e, release := beside(t, 1)
	defer release()
	hung := make(chan struct{})
	e.says(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("webhook-id"), ":hangs") {
			<-hung
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	defer close(hung)
	topic := numbered(0)
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "hangs"})
	storetest.Receive(t, "it hangs", e.got)
	storetest.Set(t, s, topic, notify.SettingsChange{BackoffMin: new(time.Millisecond), BackoffMax: new(2 * time.Millisecond), Attempts: new(1000)})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "fails"})
	storetest.Eventually(t, "it fails", func() bool { return get(t, s, "push-0").Failing != nil })
	e.says(status(http.StatusOK))
	storetest.Eventually(t, "it works again", func() bool { return get(t, s, "push-0").Failing == nil })
}
