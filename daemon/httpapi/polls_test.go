package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

func TestPollIsWoken(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	storetest.Beat(t, store)
	got := h.claim(client(t), "orders", "wait=5m&max=3")
	h.waiting(1)
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "one", Body: []byte("x")})
	if diff := cmp.Diff([]string{"one"}, ids(t, storetest.Receive(t, "the answer", got))); diff != "" {
		t.Error(diff)
	}
}

func TestPollEndsEmpty(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	got := h.want(client(t), http.StatusOK, "POST", "/v1/topics/orders/claim?wait=30ms", "")
	if text := strings.TrimSpace(string(got.body)); text != `{"messages":[]}` {
		t.Errorf("got %s", text)
	}
}

// A refused wait is answered with a problem, and sets no deadline.
func TestPollRefusesWaits(t *testing.T) {
	t.Parallel()
	h := serve(t, storetest.Open(t), httpapi.Options{}, httpapi.Timing{})
	for _, wait := range []string{"-1h", "6m", "2562047h"} {
		h.want(client(t), http.StatusUnprocessableEntity, "POST", "/v1/topics/orders/claim?wait="+wait, "")
	}
}

// A message claimed for a client that went away meanwhile is ready at once, with no attempt used.
func TestClaimForWhoWentAway(t *testing.T) {
	t.Parallel()
	store := storetest.Unhurried(storetest.At(t, storetest.Lend(t), "gone"))
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	storetest.Eventually(t, "the daemon is among the workers, and makes no call of its own", func() bool {
		return store.Client().HLen(t.Context(), store.Keys().Workers()).Val() == 1
	})
	for i, query := range []string{"wait=1m", "wait=1m&min_age=1ms", "max=2", "as=body"} {
		topic := fmt.Sprintf("orders%d", i)
		storetest.Publish(t, store, notify.Message{Topic: topic, ID: "m", Body: []byte("x")})
		hold(t, store, true)
		w := h.dial(t).say("POST /v1/topics/" + topic + "/claim?" + query + " HTTP/1.1\nHost: x\n\n")
		if strings.Contains(query, "wait") {
			h.waiting(1)
		}
		storetest.Eventually(t, "the claim is under way", func() bool { return blocked(t, store) > 0 })
		if query == "wait=1m" {
			w.Close()
		} else { // nothing notices the end before the answer does: a reset makes that fail
			w.reset()
		}
		if strings.Contains(query, "wait") && !strings.Contains(query, "min_age") {
			h.waiting(0)
		}
		hold(t, store, false)
		next := storetest.Receive(t, "the answer after "+query, h.claim(client(t), topic, "wait=1m&lease=1m"))
		if diff := cmp.Diff([]string{"m"}, ids(t, next)); diff != "" || next.messages[0].Attempt != 1 {
			t.Fatalf("%s: %s, %+v", query, diff, next.messages)
		}
	}
}

// hold has Redis block commands that write, or execute them again.
func hold(t testing.TB, store *notify.Store, on bool) {
	t.Helper()
	args := []any{"CLIENT", "UNPAUSE"}
	if on {
		args = []any{"CLIENT", "PAUSE", storetest.Deadline.Milliseconds(), "WRITE"}
	}
	storetest.Must(t, store.Client().Do(t.Context(), args...).Err())
}

// blocked counts the clients that Redis blocks.
func blocked(t testing.TB, store *notify.Store) int {
	t.Helper()
	fields, err := store.Home().Info(t.Context(), "clients")
	storetest.Must(t, err)
	n, _ := strconv.Atoi(fields["blocked_clients"])
	return n
}

func TestPollGoesAway(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	w := h.dial(t).say("POST /v1/topics/orders/claim?wait=1m HTTP/1.1\nHost: x\n\n")
	h.waiting(1)
	w.Close()
	h.waiting(0)
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "m", Body: []byte("x")})
	ids(t, storetest.Receive(t, "the next poll's answer", h.claim(client(t), "orders", "wait=1m")))
}

// A poll whose client closes its side is answered at once with no message: the client may still read, or be gone.
func TestPollOfHalfClosedClient(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"wait=1m", "wait=1m&min_age=1s"} {
		store := storetest.Open(t)
		h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
		w := h.dial(t).say("POST /v1/topics/orders/claim?" + query + " HTTP/1.1\nHost: x\n\n")
		h.waiting(1)
		closeWrite(t, w)
		h.waiting(0)
		response, err := http.ReadResponse(w.r, nil)
		storetest.Must(t, err)
		body, err := io.ReadAll(response.Body)
		if text := strings.TrimSpace(string(body)); err != nil || response.StatusCode != http.StatusOK || text != `{"messages":[]}` || !response.Close {
			t.Errorf("%s: got %d %s, %v", query, response.StatusCode, text, err)
		}
		storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "m", Body: []byte("x")})
		ids(t, storetest.Receive(t, "the next poll's answer", h.claim(client(t), "orders", "wait=1m")))
	}
}

func TestPollsShareASubscription(t *testing.T) {
	t.Parallel()
	user := storetest.NewUser(t)
	storetest.Beat(t, user.Admin)
	h := serve(t, user.Store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	const topics, each = 20, 10
	var all []<-chan claimed
	var messages []notify.Message
	for i := range topics * each {
		topic := fmt.Sprintf("topic%d", i%topics)
		all = append(all, h.claim(c, topic, "wait=5m"))
		messages = append(messages, notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: []byte("x")})
	}
	h.waiting(topics * each)
	storetest.Eventually(t, "a connection is subscribed", func() bool { return pubsubs(t, user) > 0 })
	if n := pubsubs(t, user); n != 1 {
		t.Errorf("%d connections are subscribed, want 1", n)
	}
	storetest.Publish(t, user.Store, messages...)
	seen := make(map[string]bool)
	for _, one := range all {
		for _, id := range ids(t, storetest.Receive(t, "an answer", one)) {
			seen[id] = true
		}
	}
	if len(seen) != topics*each {
		t.Errorf("%d messages came, want %d", len(seen), topics*each)
	}
	h.waiting(0)
}

func TestPollOfMany(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	got := h.claim(client(t), "orders", "wait=1m&max=5")
	h.waiting(1)
	var messages []notify.Message
	for i := range 7 {
		messages = append(messages, notify.Message{Topic: "orders", ID: fmt.Sprint(i), Body: []byte("x"), Delay: 10 * time.Millisecond})
	}
	storetest.Publish(t, store, messages...)
	seen := ids(t, storetest.Receive(t, "the answer", got))
	for len(seen) < 7 {
		more := ids(t, storetest.Receive(t, "the rest", h.claim(client(t), "orders", "wait=1m&max=5")))
		if len(more) == 0 || len(more) > 5 {
			t.Fatalf("got %v", more)
		}
		seen = append(seen, more...)
	}
	slices.Sort(seen)
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5", "6"}, seen); diff != "" {
		t.Error(diff)
	}
}

// Polls over HTTP and a worker in Go share a topic: neither starves, no message comes twice.
func TestPollsBesideSubscriber(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	handled := make(chan string, 1000)
	worker, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	storetest.Must(t, worker.Handle("orders", func(_ context.Context, d *subscribers.Delivery) error {
		handled <- "go " + d.ID
		return nil
	}, subscribers.HandleOptions{Concurrency: 1}))
	storetest.Run(t, worker.Run)
	c := client(t)
	ctx, cancel := context.WithCancel(context.Background())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for ctx.Err() == nil {
			got := <-h.claim(c, "orders", "wait=5m")
			for _, m := range got.messages {
				if r, err := h.send(c, "POST", fmt.Sprintf("/v1/topics/orders/messages/%s/ack?receipt=%d", m.ID, m.Receipt), ""); err != nil || r.status != http.StatusNoContent {
					t.Errorf("ack %s: %d %v", m.ID, r.status, err)
				}
				handled <- "http " + m.ID
			}
		}
	}()
	storetest.Eventually(t, "both wait", func() bool {
		n, err := store.Client().ZCard(t.Context(), store.KeysOf("orders").Waiting("orders")).Result()
		return err == nil && n == 2
	})
	const n = 200
	for i := range n {
		storetest.Publish(t, store, notify.Message{Topic: "orders", ID: fmt.Sprint(i), Body: []byte("x"), Delay: time.Duration(i%20) * time.Millisecond})
	}
	by, seen := make(map[string]int), make(map[string]bool)
	for range n {
		worker, id, _ := strings.Cut(storetest.Receive(t, "a message", handled), " ")
		by[worker]++
		if seen[id] {
			t.Errorf("%s came twice", id)
		}
		seen[id] = true
	}
	cancel()
	h.Quiesce(t.Context())
	<-polled
	if by["go"] == 0 || by["http"] == 0 {
		t.Errorf("they were handled by %v", by)
	}
}

// By the clock of Redis, a poll for messages of an age gets none that is younger.
func TestPollForAge(t *testing.T) {
	t.Parallel()
	const age, lease = 150 * time.Millisecond, time.Hour
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	got := h.claim(client(t), "orders", fmt.Sprintf("wait=1m&min_age=%v&lease=%v", age, lease))
	h.waiting(1)
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "one", Body: []byte("x")})
	one := storetest.Receive(t, "the answer", got)
	if diff := cmp.Diff([]string{"one"}, ids(t, one)); diff != "" {
		t.Fatal(diff)
	}
	if d := one.messages[0]; until(d).Add(-lease).Sub(d.Due) < age {
		t.Errorf("it was due at %v, and its lease ends at %v", d.Due, until(d))
	}
	h.want(client(t), http.StatusNoContent, "POST", "/v1/topics/orders/pause", "")
	if got := storetest.Receive(t, "the answer", h.claim(client(t), "orders", "wait=20ms&min_age=1ms")); len(ids(t, got)) != 0 {
		t.Errorf("a paused topic gave %v", got)
	}
}

func TestPollsWhilePaused(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	h.want(c, http.StatusNoContent, "POST", "/v1/topics/orders/pause", "")
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "one", Body: []byte("x")})
	h.want(c, http.StatusOK, "POST", "/v1/topics/orders/claim", "")
	got := []<-chan claimed{h.claim(c, "orders", "wait=1m"), h.claim(c, "orders", "wait=1m&min_age=1ms")}
	h.waiting(2)
	h.want(c, http.StatusNoContent, "POST", "/v1/topics/orders/resume", "")
	select {
	case one := <-got[0]:
		ids(t, one)
	case one := <-got[1]:
		ids(t, one)
	case <-time.After(storetest.Deadline):
		t.Fatal("neither was woken by the resume")
	}
}

// Polls survive a restart of Redis, and get the messages published after it.
func TestPollsOutliveRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes")
	store := storetest.Unhurried(storetest.At(t, server.URL(), "polls"))
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	var all []<-chan claimed
	for range 20 {
		all = append(all, h.claim(c, "orders", "wait=5m"))
	}
	h.waiting(20)
	server.Kill()
	storetest.Eventually(t, "the daemon is not ready", func() bool {
		r, err := h.send(c, "GET", "/readyz", "")
		return err == nil && r.status == http.StatusServiceUnavailable
	})
	r := h.want(c, http.StatusServiceUnavailable, "POST", "/v1/topics/orders/claim?wait=1m", "")
	if r.header.Get("Retry-After") == "" {
		t.Error("a claim without Redis is answered without Retry-After")
	}
	if status := h.want(c, http.StatusOK, "GET", "/healthz", "").status; status != http.StatusOK {
		t.Error(status)
	}
	again, err := server.Restart(t.Context())
	storetest.Must(t, err)
	defer again.Stop()
	for i := range 20 {
		storetest.Eventually(t, "a publish succeeds", func() bool {
			r, err := h.send(c, "POST", fmt.Sprintf("/v1/topics/orders/messages?id=m%d", i), "x")
			return err == nil && (r.status == http.StatusCreated || r.status == http.StatusConflict)
		})
	}
	seen := make(map[string]bool)
	lost := 0
	for _, one := range all {
		got := storetest.Receive(t, "an answer", one)
		if got.status == http.StatusServiceUnavailable {
			lost++ // it asked while Redis was down
			continue
		}
		for _, id := range ids(t, got) {
			seen[id] = true
		}
	}
	if len(seen)+lost != 20 {
		t.Errorf("%d messages came, %d polls failed because Redis was down", len(seen), lost)
	}
}

func TestReloadEndsPollsAndStreams(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		storetest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	const old, kept = "old aaaaaaaaaaaaaaaaaaaaaa consume,listen >\n", "kept bbbbbbbbbbbbbbbbbbbbbb consume,listen >\n"
	write(old + kept)
	h := serve(t, storetest.Open(t), httpapi.Options{TokensFile: file}, httpapi.Timing{})
	with := func(token string) *http.Client {
		c := client(t)
		return &http.Client{Transport: bearer{c.Transport, token}}
	}
	a, b := with("aaaaaaaaaaaaaaaaaaaaaa"), with("bbbbbbbbbbbbbbbbbbbbbb")
	gone, stays := h.listen(a, "news/broadcasts", ""), h.listen(b, "news/broadcasts", "")
	poll, aged, other := h.claim(a, "orders", "wait=1m"), h.claim(a, "orders", "wait=1m&min_age=1s"), h.claim(b, "orders", "wait=1m")
	h.waiting(3)
	write(kept)
	storetest.Must(t, h.Reload())
	gone.ended()
	for _, one := range []<-chan claimed{poll, aged} {
		if got := storetest.Receive(t, "the answer", one); got.status != http.StatusUnauthorized {
			t.Errorf("the poll got %d, %v", got.status, got.err)
		}
	}
	h.waiting(1)
	storetest.Publish(t, h.store, notify.Message{Topic: "orders", ID: "m", Body: []byte("x")})
	ids(t, storetest.Receive(t, "the answer", other))
	carry(t, h.store)
	send(t, h.store, "news", "hello")
	if got := stays.broadcast(); string(got.Bytes()) != "hello" {
		t.Errorf("got %+v", got)
	}
}

// bearer returns the header that sends a token.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}
