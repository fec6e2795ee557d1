package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// hard are bodies that are difficult to write as JSON a piece at a time.
func hard() (bodies [][]byte) {
	for _, length := range []int{1, 6143, 6144, 6145, 6146, 12_288, 12_289, 40_000, 200_000} {
		for _, text := range []string{"x", "\x00", "\"", "\\", "\n\r\t\b\f", "<&>", "é", "€\u2028", "a𝄞b", "\x7f\u0080\ufffd"} {
			bodies = append(bodies, []byte(strings.Repeat(text, length/len(text)+1)))
		}
		random := make([]byte, length)
		for i := range random {
			random[i] = byte(rand.N(256))
		}
		bodies = append(bodies, random, append(bytes.Repeat([]byte("x"), length), 0xff), append([]byte{0xff}, bytes.Repeat([]byte("x"), length)...))
	}
	return bodies
}

// Answers sent a piece at a time are the same as answers sent as a whole.
func TestAnswersInPieces(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c := client(t)
	s := h.listen(c, "news/broadcasts", "")
	for i, body := range hard() {
		id := fmt.Sprint(i)
		storetest.Publish(t, store, notify.Message{Topic: "orders", ID: id, Body: body, ContentType: "a/b"}, notify.Message{Topic: "news", ID: id, Body: body, Broadcast: true})
		var one api.Message
		var page struct {
			Messages []api.Message
			Cursor   string
		}
		var claimed api.Claimed
		var broadcast api.Broadcast
		for _, answer := range []struct {
			text string
			into any
		}{
			{string(h.want(c, 200, "GET", "/v1/topics/orders/messages/"+id, "").body), &one},
			{string(h.want(c, 200, "GET", "/v1/topics/orders/messages?state=ready", "").body), &page},
			{string(h.want(c, 200, "POST", "/v1/topics/orders/claim", "").body), &claimed},
			{s.next().data + "\n", &broadcast},
		} {
			if err := json.Unmarshal([]byte(answer.text), answer.into); err != nil {
				t.Fatalf("%v in %.300q", err, answer.text)
			}
			if n := strings.Count(answer.text, `"body":`) + strings.Count(answer.text, `"body_base64":`); n != 1 {
				t.Fatalf("%d bodies are in %.300q", n, answer.text)
			}
		}
		for _, got := range []api.Text{one.Text, page.Messages[0].Text, claimed.Messages[0].Text, broadcast.Text} {
			if want := api.TextOf(body); !reflect.DeepEqual(want, got) { // go-cmp takes seconds for so many bytes
				t.Fatalf("body %d of %d bytes (-want +got):\n%.1000s", i, len(body), gocmp.Diff(want, got))
			}
		}
		h.want(c, 204, "POST", fmt.Sprintf("/v1/topics/orders/messages/%s/ack?receipt=%d", id, claimed.Messages[0].Receipt), "")
	}
}

// inUse returns the bytes of reachable memory.
func inUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// stuck sends a request by many connections, and waits until each answer has begun; nobody reads on.
func (h *host) stuck(t *testing.T, n int, request string) (all []*wire) {
	t.Helper()
	for range n {
		w := h.dial(t)
		_ = w.Conn.(*net.TCPConn).SetReadBuffer(4096)
		all = append(all, w.say(request))
	}
	for _, w := range all {
		storetest.Must(t, storetest.ErrOf(w.r.Peek(1)))
	}
	return all
}

// wantInUse waits until little more than so many bytes of memory are in use, while clients stay stuck.
func wantInUse(t *testing.T, before, most int64) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d MiB are in use", most>>20), func() bool { return inUse()-before < most+16<<20 })
}

// Control characters are six times as long in JSON.
var control = bytes.Repeat([]byte{1}, notify.DefaultMaxBody)

// However many answers nobody reads, and however long their JSON is, the daemon uses no more than a token's memory.
func TestAnswersThatAreNotRead(t *testing.T) {
	store := storetest.Open(t)
	var all []notify.Message
	for range 400 {
		all = append(all, notify.Message{Topic: "orders", Body: control})
	}
	for range 20 {
		all = append(all, notify.Message{Topic: "later", Body: control, Delay: time.Hour})
	}
	for some := range slices.Chunk(all, 20) {
		storetest.Publish(t, store, some...)
	}
	for name, request := range map[string]string{
		"claims": "POST /v1/topics/orders/claim?max=500 HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
		"lists":  "GET /v1/topics/later/messages?limit=500 HTTP/1.1\nHost: x\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, store, httpapi.Options{}, httpapi.Timing{Memory: 10 * time.Millisecond, Answer: time.Hour})
			before := inUse()
			h.stuck(t, 60, request)
			wantInUse(t, before, httpapi.MemoryOfToken)
		})
	}
}

// Nor do exports of the console: only as many begin as have memory for a page.
func TestExportsThatAreNotRead(t *testing.T) {
	store := storetest.Open(t)
	for range 20 { // more than the buffers of a connection take
		storetest.Publish(t, store, notify.Message{Topic: "later", Body: control, Delay: time.Hour})
	}
	h := serve(t, store, httpapi.Options{Console: true}, httpapi.Timing{Memory: 10 * time.Millisecond, Answer: time.Hour})
	began := 0
	for _, w := range h.stuck(t, 60, "GET /ui/find/export?q=topic:later HTTP/1.1\nHost: x\n\n") {
		switch status, _ := w.r.Peek(len("HTTP/1.1 200")); string(status) {
		case "HTTP/1.1 200":
			began++
		case "HTTP/1.1 503":
		default:
			t.Errorf("got %q", status)
		}
	}
	if began != httpapi.MemoryOfToken/(16<<20) {
		t.Errorf("%d exports began", began)
	}
}

// Streams that nobody reads keep each broadcast that they are sending once in memory.
func TestStreamsThatAreNotRead(t *testing.T) {
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Hour, Closed: 50 * time.Millisecond})
	carry(t, store)
	const streams, broadcasts = 80, 24
	reader := h.listen(client(t), "news/broadcasts", "")
	before := inUse()
	h.stuck(t, streams, "GET /v1/topics/news/broadcasts HTTP/1.1\nHost: x\n\n")
	for range broadcasts {
		send(t, store, "news", string(control))
		reader.broadcast()
	}
	wantInUse(t, before, broadcasts*int64(len(control))+streams*200<<10)
	if n := h.Stats().Streams; n != streams+1 {
		t.Errorf("%d streams are left", n)
	}
}

// While a token's memory is in use, its streams wait for a while and are cut off. Those of
// other tokens are not, and a cut off stream resumes where it was.
func TestStreamsWithoutMemory(t *testing.T) {
	t.Parallel()
	h := crowded(t)
	carry(t, h.store)
	listen := func(token, lastID string) *stream {
		return h.listen(clientOf(t, token), "news/broadcasts", lastID)
	}
	slow, other := listen(slowToken, ""), listen(otherToken, "")
	send(t, h.store, "news", "small")
	for _, s := range []*stream{slow, other} {
		if got := s.broadcast(); string(got.Bytes()) != "small" {
			t.Errorf("got %+v", got)
		}
	}
	free := h.occupy(t)
	send(t, h.store, "news", string(control))
	if got := other.broadcast(); len(got.Bytes()) != len(control) {
		t.Errorf("the other token got %d bytes", len(got.Bytes()))
	}
	last := slow.ended()
	if n := h.Stats().Cut; n != 1 {
		t.Errorf("%d streams were cut off", n)
	}
	free()
	large := strings.Repeat("x", 1<<20)
	storetest.Eventually(t, "there is memory again", func() bool { return h.post(t, slowToken, "/v1/topics/orders/messages", large) == 201 })
	if got := listen(slowToken, last).broadcast(); len(got.Bytes()) != len(control) {
		t.Errorf("got %d bytes", len(got.Bytes()))
	}
}

// clientOf is client for a token.
func clientOf(t testing.TB, token string) *http.Client {
	c := client(t)
	c.Transport = withToken{token, c.Transport}
	return c
}

// withToken sends a token with each request.
type withToken struct {
	token string
	http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.RoundTripper.RoundTrip(r)
}

// Each token has its own limit of streams at a time.
func TestMostStreams(t *testing.T) {
	t.Parallel()
	tokens := file(t, "tokens", "one "+slowToken+" listen >\ntwo "+otherToken+" listen >\n")
	h := serve(t, storetest.Open(t), httpapi.Options{TokensFile: tokens, MaxStreams: 2}, httpapi.Timing{})
	one := clientOf(t, slowToken)
	first := h.listen(one, "news/broadcasts", "")
	h.listen(one, "news/broadcasts", "")
	got := h.want(one, http.StatusTooManyRequests, "GET", "/v1/topics/news/broadcasts", "")
	if !strings.Contains(string(got.body), "its limit of streams open: 2; close some, or listen to a pattern") || got.header.Get("Retry-After") == "" {
		t.Errorf("%s %v", got.body, got.header)
	}
	h.listen(clientOf(t, otherToken), "news/broadcasts", "")
	first.Close()
	storetest.Eventually(t, "it is gone", func() bool { return h.Stats().Streams == 2 })
	h.listen(one, "news/broadcasts", "")
}
