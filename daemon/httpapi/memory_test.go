package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const slowToken, otherToken = "0123456789abcdef-slow", "0123456789abcdef-other"

// crowded serves two tokens with a short wait for memory; tests use up that of slowToken, by bodies that do not come.
func crowded(t *testing.T) *host {
	t.Helper()
	tokens := file(t, "tokens", "slow "+slowToken+" publish,consume,listen,schedule >\nother "+otherToken+" publish,consume,listen >\n")
	return serve(t, storetest.Open(t), httpapi.Options{TokensFile: tokens, MaxBody: 1 << 20, Console: true}, httpapi.Timing{Memory: 10 * time.Millisecond, Body: time.Hour})
}

// post sends a request with a token, and returns the status; 0 if the answer came before all of it was sent.
func (h *host) post(t *testing.T, token, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", h.url(path), strings.NewReader(body))
	storetest.Must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client(t).Do(r)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// announce returns the head of a request of slowToken with a body of this size.
func announce(path string, bytes int, headers string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\nHost: a\nAuthorization: Bearer %s\n%sContent-Length: %d\n\n", path, slowToken, headers, bytes)
}

// wantCrowded checks that slowToken has memory only for small bodies, and that other tokens have theirs.
func (h *host) wantCrowded(t *testing.T, path, small, large string) {
	t.Helper()
	if got := h.post(t, slowToken, path, large); got != 503 && got != 0 {
		t.Errorf("a further one is answered with %d", got)
	}
	if got := h.post(t, slowToken, path, small); got/100 != 2 {
		t.Errorf("a small one is answered with %d", got)
	}
	if got := h.post(t, otherToken, path, large); got/100 != 2 {
		t.Errorf("that of another token is answered with %d", got)
	}
}

// full waits until slowToken has no memory for a body of so many bytes. A request would
// take the memory for which one of the others waits.
func (h *host) full(t *testing.T, bytes int) {
	t.Helper()
	storetest.Eventually(t, "all have memory", func() bool { return !h.HasMemory("slow", int64(bytes)) })
}

// occupy uses up all memory of slowToken, by bodies that do not come.
func (h *host) occupy(t *testing.T) (free func()) {
	t.Helper()
	var wires []*wire
	const body = 16 << 20
	for range httpapi.MemoryOfToken / body {
		w := h.dial(t).say(announce("/v1/messages", body, "Expect: 100-continue\n"))
		if got := w.status(); got != 100 { // the daemon waits for the body
			t.Fatalf("got %d", got)
		}
		wires = append(wires, w)
	}
	return func() {
		for _, w := range wires {
			w.Close()
		}
	}
}

// Clients that send large bodies slowly, or read no answer, use only the memory of their token.
func TestLargeRequestsOfOneToken(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	free := h.occupy(t)
	line := `{"topic":"orders","body":"` + strings.Repeat("x", 10_000) + "\"}\n"
	large := strings.Repeat(line, 120)
	h.wantCrowded(t, "/v1/messages", line, large)
	free()
	storetest.Eventually(t, "there is memory again", func() bool { return h.post(t, slowToken, "/v1/messages", large) == 200 })
}

// The same holds for many bodies that are not large.
func TestManyRequestsOfOneToken(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	const path, body, sent = "/v1/topics/orders/messages", 1 << 20, 65 << 10
	var wires []*wire
	for range httpapi.MemoryOfToken / body {
		wires = append(wires, h.dial(t).say(announce(path, body, "")+strings.Repeat("x", sent)))
	}
	large := strings.Repeat("x", body)
	h.full(t, len(large))
	h.wantCrowded(t, path, "x", large)
	for _, w := range wires {
		w.Close()
	}
	storetest.Eventually(t, "there is memory again", func() bool { return h.post(t, slowToken, path, large) == 201 })
}

// A claim without memory for its answer releases its messages, and a list of schedules is refused.
func TestClaimWithoutMemory(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	storetest.Publish(t, h.store, notify.Message{Topic: "orders", ID: "a", Body: []byte(strings.Repeat("x", 100_000))})
	storetest.Publish(t, h.store, notify.Message{Topic: "mail", ID: "a", Body: []byte("x")})
	free := h.occupy(t)
	if got := h.post(t, slowToken, "/v1/topics/orders/claim", ""); got != 503 {
		t.Errorf("a claim is answered with %d", got)
	}
	h.want(clientOf(t, slowToken), 503, "GET", "/v1/topics/orders/messages/a", "")
	h.want(clientOf(t, slowToken), 503, "GET", "/v1/topics/orders/schedules", "")
	if got := h.post(t, slowToken, "/v1/topics/mail/claim", ""); got != 200 {
		t.Errorf("one of a small message is answered with %d", got)
	}
	info, err := storetest.Inspector(t, h.store).Inspect(t.Context(), "orders", "a")
	if err != nil || info.State != notify.Ready || info.Attempts != 0 {
		t.Errorf("got %+v, %v", info, err)
	}
	free()
	storetest.Eventually(t, "it is claimed", func() bool { return h.post(t, slowToken, "/v1/topics/orders/claim", "") == 200 })
}

// What lists become that are read has a memory of its own, of each token, and a list without it is refused before any of it is read.
func TestListsOfOneToken(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	free, err := h.TakeLists(t.Context(), "slow")
	storetest.Must(t, err)
	lists := []struct{ method, path, body string }{
		{"POST", "/v1/messages", `{"topic":"orders","body":"x"}`},
		{"POST", "/v1/topics/orders/ack", `[{"id":"a","receipt":1}]`},
		{"PUT", "/v1/topics/orders/schedules", `{"schedules":[{"name":"a","every":"1h","body":"x"}]}`},
	}
	for _, list := range lists {
		h.want(clientOf(t, slowToken), 503, list.method, list.path, list.body)
	}
	h.want(clientOf(t, otherToken), 200, "POST", "/v1/messages", `{"topic":"orders","body":"x"}`)
	if got := h.post(t, slowToken, "/v1/topics/orders/messages", "x"); got != 201 {
		t.Errorf("a message is answered with %d", got)
	}
	free()
	for _, list := range lists {
		h.want(clientOf(t, slowToken), 200, list.method, list.path, list.body)
	}
}

// Small bodies that do not come use a memory of their own.
func TestSmallRequestsOfOneToken(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	const path, body = "/v1/topics/orders/messages", 64 << 10
	var wires []*wire
	for range httpapi.MemoryOfSmall / body {
		wires = append(wires, h.dial(t).say(announce(path, body, "")+"x"))
	}
	h.full(t, 1)
	if got := h.post(t, slowToken, path, "x"); got != 503 && got != 0 {
		t.Errorf("a further one is answered with %d", got)
	}
	if got := h.post(t, otherToken, path, "x"); got != 201 {
		t.Errorf("that of another token is answered with %d", got)
	}
	for _, w := range wires {
		w.Close()
	}
	storetest.Eventually(t, "there is memory again", func() bool { return h.post(t, slowToken, path, "x") == 201 })
}

// So do forms of pages that do not come, and whoever takes up the memory with calls gets no large form read.
func TestSlowForms(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	login, err := http.NewRequestWithContext(t.Context(), "POST", h.url("/ui/login"), strings.NewReader("token="+slowToken))
	storetest.Must(t, err)
	login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := client(t).Transport.RoundTrip(login)
	storetest.Must(t, err)
	response.Body.Close()
	form := func(bytes int) string {
		return fmt.Sprintf("POST /ui/topics/orders HTTP/1.1\nHost: a\nCookie: %v\nContent-Type: application/x-www-form-urlencoded\nContent-Length: %d\n\n", response.Cookies()[0], bytes)
	}
	const bytes, sent = 512 << 10, 65 << 10
	var wires []*wire
	for range httpapi.MemoryOfToken / bytes {
		wires = append(wires, h.dial(t).say(form(bytes)+strings.Repeat("x", sent)))
	}
	const path = "/v1/topics/orders/messages"
	large := strings.Repeat("x", 1<<20)
	h.full(t, bytes) // not that of a large one: a form that still comes would leave room for another
	h.wantCrowded(t, path, "x", large)
	if got := h.dial(t).say(form(2*sent) + strings.Repeat("x", 2*sent)).status(); got != 503 {
		t.Errorf("a further form is answered with %d", got)
	}
	for _, w := range wires {
		w.Close()
	}
	storetest.Eventually(t, "there is memory again", func() bool { return h.post(t, slowToken, path, large) == 201 })
}
