package push_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What an endpoint answers becomes the reason of the failed attempt, which is the only one of these messages.
func TestAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := newEndpoint(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "no\n\tdatabase ", strings.Repeat("x", 5000))
		}, "HTTP 500 Internal Server Error: no database xxx"},
		"not found":         {status(http.StatusNotFound), "HTTP 404 Not Found"},
		"too many, no time": {status(http.StatusTooManyRequests), "HTTP 429 Too Many Requests"},
		"no text": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write(make([]byte, 100_000))
		}, "HTTP 502 Bad Gateway"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "HTTP 307 Temporary Redirect"},
		"it closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"it hangs":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 300ms"},
		"a status 1xx": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		}, "HTTP 418 I'm a teapot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := store.Push{Timeout: time.Minute}
			if name == "it hangs" {
				of.Timeout = 300 * time.Millisecond
			}
			s, e, _ := openedWith(t, of)
			e.says(c.answer)
			storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", MaxAttempts: 1})
			storetest.Eventually(t, "it is dead", func() bool { return info(t, s, "a").State == notify.Dead })
			if got := info(t, s, "a").Reason; !strings.Contains(got, c.want) || len(got) > 1200 || strings.Contains(got, e.URL) {
				t.Errorf("the reason is %q, want %q in it", got, c.want)
			}
		})
	}
	if len(elsewhere.got) > 0 {
		t.Error("a redirect was followed")
	}
}

// An endpoint that says when puts a message off, and no attempt is used up.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	for i, after := range []string{"3600", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), "999999999999"} {
		code := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[i%2]
		e.says(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(code)
		})
		id := fmt.Sprintf("m%d", i)
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: id})
		storetest.Eventually(t, "it is put off", func() bool { return info(t, s, id).State == notify.Scheduled })
		wait := time.Hour
		if i == 2 {
			wait = 24 * time.Hour
		}
		if got := info(t, s, id); got.Attempts != 0 || got.Snoozed != 1 || time.Until(got.Due) > wait+time.Minute || time.Until(got.Due) < wait-time.Minute {
			t.Errorf("%s: got %+v", after, got)
		}
	}
}

// At once, or a time that is past by this machine's clock, is said, too, but an endpoint that says so again and again fails. What cannot be
// read is not said.
func TestRetryAfterNow(t *testing.T) {
	t.Parallel()
	for after, puts := range map[string]bool{"0": true, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): true, "": false, "soon": false, "-1": false} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			s, e, _ := opened(t)
			e.says(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", after)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", MaxAttempts: 1})
			if !puts {
				storetest.Eventually(t, "it is dead", func() bool { return info(t, s, "a").State == notify.Dead })
				return
			}
			storetest.Eventually(t, "it is put off twice", func() bool { i := info(t, s, "a"); return i.Snoozed >= 2 && i.Attempts == 0 })
			storetest.Eventually(t, "the endpoint fails", func() bool { return get(t, s, "crm").Failing != nil })
			if i := info(t, s, "a"); i.Attempts != 0 {
				t.Errorf("%d attempts are used up", i.Attempts)
			}
		})
	}
}

// A push whose endpoint is gone is paused with that as the reason; its messages wait, and go on once it is resumed.
func TestGone(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, "unsubscribed")
	})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	storetest.Eventually(t, "it is paused", func() bool { return get(t, s, "crm").Paused == "the endpoint answered HTTP 410 Gone: unsubscribed" })
	storetest.Eventually(t, "its message is ready", func() bool { i := info(t, s, "a"); return i.State == notify.Ready && i.Attempts == 0 })
	e.says(status(http.StatusNoContent))
	change(t, s, "crm", func(p *store.Push) { p.Paused = "" })
	gone(t, s, "a")
}

// change changes a push.
func change(t testing.TB, s *notify.Store, name string, f func(*store.Push)) {
	t.Helper()
	if err := s.Home().ChangePush(t.Context(), name, func(p *store.Push) (*store.Push, error) { f(p); return p, nil }); err != nil {
		t.Fatal(err)
	}
}

// An endpoint that fails is asked by one request after a pause, while its messages are ready and use up no attempts; each other one is
// handled when it works again. Another pusher learns of it.
func TestEndpointFails(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	e.says(status(http.StatusInternalServerError))
	const n = 100
	for i := range n {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: fmt.Sprintf("m%d", i)})
	}
	storetest.Eventually(t, "it is noted", func() bool { return get(t, s, "crm").Failing != nil })
	if f := get(t, s, "crm").Failing; f.Answer != "HTTP 500 Internal Server Error" || time.Since(f.Since) > time.Minute {
		t.Errorf("got %+v", f)
	}
	before := len(e.got)
	storetest.Eventually(t, "it is asked twice more", func() bool { return len(e.got) >= before+2 })
	if most := store.DefaultPushInFlight + 10; len(e.got) > most {
		t.Errorf("there were %d requests, want at most %d", len(e.got), most)
	}
	used := 0
	for i := range n {
		used += info(t, s, fmt.Sprintf("m%d", i)).Attempts
	}
	if used > store.DefaultPushInFlight {
		t.Errorf("%d attempts are used up", used)
	}
	run(t, s) // it asks seldom, too
	e.says(status(http.StatusOK))
	for i := range n {
		gone(t, s, fmt.Sprintf("m%d", i))
	}
	storetest.Eventually(t, "it is noted that it works", func() bool { return get(t, s, "crm").Failing == nil })
}

// A push is changed while it works: from one endpoint to another, by its topics, paused, resumed and removed.
func TestChanges(t *testing.T) {
	t.Parallel()
	s, first, _ := opened(t)
	second := newEndpoint(t)
	publish := func(id, topic string) { storetest.Publish(t, s, notify.Message{Topic: topic, ID: id}) }
	publish("a", topic)
	storetest.Receive(t, "a is pushed", first.got)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic, "other"}, URL: second.URL})
	publish("b", "other") // the pusher does not know the topic before it knows the endpoint
	storetest.Receive(t, "b is pushed", second.got)
	publish("c", topic)
	storetest.Receive(t, "c is pushed", second.got)
	change(t, s, "crm", func(p *store.Push) { p.Paused = "by hand" })
	put(t, s, store.Push{Name: "mail", Topics: []string{"mail"}, URL: first.URL})
	publish("d", "mail")
	storetest.Receive(t, "d is pushed", first.got)
	publish("e", topic)
	storetest.Eventually(t, "e is ready", func() bool { return info(t, s, "e").State == notify.Ready })
	change(t, s, "crm", func(p *store.Push) { p.Paused = "" })
	storetest.Receive(t, "e is pushed", second.got)
	if err := s.Home().ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	put(t, s, store.Push{Name: "crm2", Topics: []string{topic, "last"}, URL: first.URL})
	publish("f", "last") // the pusher that knows its push knows that crm is gone
	storetest.Receive(t, "f is pushed", first.got)
	publish("g", topic)
	storetest.Receive(t, "g is pushed", first.got)
}

// A request that is under way when the pusher ends is awaited; its message is acknowledged.
func TestEndsInOrder(t *testing.T) {
	t.Parallel()
	s, e := storetest.Unhurried(storetest.Open(t)), newEndpoint(t)
	_, stop := run(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL})
	release := make(chan struct{})
	e.says(func(http.ResponseWriter, *http.Request) { <-release })
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	storetest.Receive(t, "it is pushed", e.got)
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	stop()
	gone(t, s, "a")
	if n := len(e.got); n != 0 {
		t.Errorf("it was pushed %d times more", n)
	}
}
