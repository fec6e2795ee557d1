package push_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
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

// limited is an endpoint's answer that it wants no request for some time.
func limited(code int, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(code)
	}
}

// An endpoint that says when puts a message off, and no attempt is used up. A fraction is rounded up, and what is long is a day.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for after, wait := range map[string]time.Duration{
		"3600": time.Hour, "3599.01": time.Hour, "999999999999": 24 * time.Hour, "99999999999999999999999999": 24 * time.Hour,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour,
	} {
		for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(after, code), func(t *testing.T) {
				t.Parallel()
				s, e, _ := opened(t)
				e.says(limited(code, after))
				storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
				storetest.Eventually(t, "it is put off", func() bool { return info(t, s, "a").State == notify.Scheduled })
				if got := info(t, s, "a"); got.Attempts != 0 || got.Snoozed != 1 || time.Until(got.Due) > wait+time.Minute || time.Until(got.Due) < wait-time.Minute {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

// A time counts from the time of the answer, whatever this machine's clock says.
func TestRetryAfterByTheClockOfTheEndpoint(t *testing.T) {
	t.Parallel()
	s, e, _ := opened(t)
	theirs := time.Now().Add(-1000 * time.Hour).UTC()
	e.says(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", theirs.Format(http.TimeFormat))
		limited(http.StatusTooManyRequests, theirs.Add(time.Hour).Format(http.TimeFormat))(w, r)
	})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	storetest.Eventually(t, "it is put off", func() bool { return info(t, s, "a").State == notify.Scheduled })
	if d := time.Until(info(t, s, "a").Due); d < 59*time.Minute || d > 61*time.Minute {
		t.Errorf("it is due in %v", d)
	}
}

// An endpoint that says when is asked by nobody before, in any daemon, also after a request that began earlier succeeds; the other
// messages stay ready. Then one asks, and then the others.
func TestRetryAfterClosesTheEndpoint(t *testing.T) {
	t.Parallel()
	s, e, first := openedWith(t, store.Push{Topics: []string{topic, "other"}, Timeout: time.Minute})
	second, _ := run(t, s)
	early := make(chan struct{})
	e.says(func(http.ResponseWriter, *http.Request) { <-early })
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "early"})
	storetest.Receive(t, "one is under way", e.got)
	const wait = 3
	var mu sync.Mutex
	var closed time.Time // when the endpoint said so
	asked := 0           // since then
	e.says(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case closed.IsZero():
			closed = time.Now()
			limited(http.StatusTooManyRequests, fmt.Sprint(wait))(w, r)
		case time.Since(closed) < wait*time.Second:
			asked++
		}
	})
	storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a"})
	storetest.Eventually(t, "it is known everywhere", func() bool { return first.Stats().Closed == 1 && second.Stats().Closed == 1 })
	c := get(t, s, "crm").Closed
	if c == nil || c.Answer != "HTTP 429 Too Many Requests" || c.Left > wait*time.Second || time.Until(c.Until) > time.Minute {
		t.Errorf("got %+v", c)
	}
	close(early)
	gone(t, s, "early")
	for i := range 300 {
		storetest.Publish(t, s, notify.Message{Topic: []string{topic, "other"}[i%2], ID: fmt.Sprint("m", i)})
	}
	for i := 0; i < 300; i += 2 {
		gone(t, s, fmt.Sprint("m", i))
	}
	gone(t, s, "a")
	mu.Lock()
	defer mu.Unlock()
	if asked > 0 {
		t.Errorf("it was asked %d times while it wanted no request", asked)
	}
	if get(t, s, "crm").Closed != nil || get(t, s, "crm").Failing != nil || first.Stats().Closed+second.Stats().Closed != 0 {
		t.Error("it is closed yet")
	}
}

// An answer that breaks off behind its header counts as that says.
func TestAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	breaks := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(code)
			fmt.Fprint(w, "so sor")
		}
	}
	for code, state := range map[int]notify.State{
		http.StatusOK: 0, http.StatusTooManyRequests: notify.Scheduled, http.StatusGone: notify.Ready, http.StatusUnprocessableEntity: notify.Dead,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s, e, _ := opened(t)
			e.says(breaks(code))
			storetest.Publish(t, s, notify.Message{Topic: topic, ID: "a", MaxAttempts: 1})
			switch code {
			case http.StatusOK:
				gone(t, s, "a")
				return
			case http.StatusGone:
				storetest.Eventually(t, "it is paused", func() bool { return get(t, s, "crm").Paused != "" })
			}
			storetest.Eventually(t, "it has its state", func() bool { return info(t, s, "a").State == state })
			if reason := info(t, s, "a").Reason; state == notify.Dead && !strings.Contains(reason, "HTTP 422 Unprocessable Entity: so sor, and its answer breaks off: ") {
				t.Errorf("the reason is %q", reason)
			}
		})
	}
}

// A kept connection that the endpoint has closed meanwhile is no failed attempt: the message is sent again over a new one.
func TestKeptConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s, e, _ := openedWith(t, store.Push{InFlight: 1, Timeout: time.Minute})
	var mu sync.Mutex
	met := make(map[string]bool) // connections
	e.says(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if met[r.RemoteAddr] {
			panic(http.ErrAbortHandler) // as one that it closes at the moment in which the request comes
		}
		met[r.RemoteAddr] = true
	})
	for _, id := range []string{"a", "b", "c"} {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: id, MaxAttempts: 1})
		gone(t, s, id)
	}
}

// All requests under way may say that an endpoint is gone: it is logged once.
func TestGoneIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s, e := storetest.Open(t), newEndpoint(t)
	carry(t, s)
	put(t, s, store.Push{Name: "crm", Topics: []string{topic}, URL: e.URL, Timeout: time.Minute})
	var log bytes.Buffer
	p, err := push.New(s, push.Options{Allow: "127.0.0.1", Grace: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Must(t, err)
	stop := storetest.Run(t, p.Run)
	answer := make(chan struct{})
	e.says(func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		w.WriteHeader(http.StatusGone)
	})
	for i := range store.DefaultPushInFlight {
		storetest.Publish(t, s, notify.Message{Topic: topic, ID: fmt.Sprint("m", i)})
	}
	for range store.DefaultPushInFlight {
		storetest.Receive(t, "all are under way", e.got)
	}
	close(answer)
	storetest.Eventually(t, "all are ready", func() bool {
		for i := range store.DefaultPushInFlight {
			if info(t, s, fmt.Sprint("m", i)).State != notify.Ready {
				return false
			}
		}
		return true
	})
	stop()
	if n := strings.Count(log.String(), "its endpoint is gone"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, log.String())
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
	storetest.Must(t, s.Home().ChangePush(t.Context(), name, func(p *store.Push) (*store.Push, error) { f(p); return p, nil }))
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
	storetest.Must(t, s.Home().ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) { return nil, nil }))
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
