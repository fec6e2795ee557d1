package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// awkward are bodies that are difficult for a shell, or for a reader of JSON.
var awkward = []string{
	`{"total":12,"id":"x","receipt":1}`, "\"'`$(exit 1)\\", "a\nb\r\n\n", "\x00\x01\xff\x00", "", " ", "\n", "-n", "<script>alert(1)</script>", strings.Repeat("ä\x00", 50_000),
}

// A claim can get one message as it is, with all its other fields in headers.
func TestClaimAsBody(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const claim = "/v1/topics/orders/claim?as=body"
	for i, body := range awkward {
		storetest.Publish(t, s.store, notify.Message{
			Topic: "orders", ID: strconv.Itoa(i), Body: []byte(body), ContentType: "text/html; charset=\"ü\"",
			Headers: map[string]string{"id": "not this", "receipt": "1", "X-Note": "a\"b; ü €", "Empty": ""},
		})
		got := s.call("POST", claim, "").is(200)
		if string(got.body) != body {
			t.Errorf("%.40q came as %.40q", body, got.body)
		}
		receipt, err := strconv.ParseInt(got.header.Get("Bellhop-Receipt"), 10, 64)
		if err != nil || receipt < 2 {
			t.Errorf("the receipt is %d, %v", receipt, err)
		}
		first, err := time.Parse(time.RFC3339, got.header.Get("Bellhop-First-Due"))
		if due := got.header.Get("Bellhop-Due"); err != nil || due != first.Format(time.RFC3339Nano) {
			t.Errorf("first due %v, %v; due %s", first, err, due)
		}
		want := map[string]string{
			"Content-Type": "text/html; charset=\"ü\"", "Content-Length": strconv.Itoa(len(body)), "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
			"Bellhop-Topic": "orders", "Bellhop-Id": strconv.Itoa(i), "Bellhop-Attempt": "1",
			"Bellhop-Header-Id": "not this", "Bellhop-Header-Receipt": "1", "Bellhop-Header-X-Note": "a\"b; ü €", "Bellhop-Header-Empty": "",
		}
		for name, value := range want {
			if diff := cmp.Diff([]string{value}, got.header.Values(name)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		s.call("POST", "/v1/topics/orders/messages/"+strconv.Itoa(i)+"/ack?receipt="+got.header.Get("Bellhop-Receipt"), "").is(204)
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", Body: []byte("<html>")})
	if got := s.call("POST", claim, "").is(200); len(got.header.Values("Content-Type")) != 0 {
		t.Errorf("a message without a content type has %v", got.header)
	}
	if got := s.call("POST", claim+"&wait=20ms", "").is(204); len(got.body) != 0 {
		t.Errorf("no message is answered as %q", got.body)
	}
	for _, query := range []string{"&max=2", "&max=500"} {
		s.call("POST", claim+query, "").is(422).says("as=body answers with one message")
	}
	s.call("POST", "/v1/topics/orders/claim?as=text", "").is(422).says("use body")
	s.call("POST", claim+"&max=1", "").is(204)
}

// A record written directly to Redis cannot inject headers into an answer: the message is buried, not sent in another form.
func TestClaimAsBodyOfForeignRecords(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for _, line := range []string{
		`1,{"type":"a/b\r\nBellhop-Id: 2"}`, `1,{"headers":{"X":"a\r\nSet-Cookie: b"}}`, `1,{"headers":{"X: y\r\nZ":"a"}}`, `1,{"headers":{"":"a"}}`, `1,{"headers":{"X":"\u0000"}}`,
	} {
		storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "1", Body: []byte("x")})
		storetest.Must(t, s.store.Client().HSet(t.Context(), s.store.KeysOf("orders").Messages(), "orders:1", line+"\nx").Err())
		got := s.call("POST", "/v1/topics/orders/claim?as=body", "").is(204)
		for name := range got.header {
			if slices.Contains([]string{"Set-Cookie", "Bellhop-Id", "Z"}, name) {
				t.Errorf("%s: got the header %s", line, name)
			}
		}
		s.call("GET", messages+"/1", "").is(200).says(`"state":"dead"`).says("cannot be claimed with as=body: invalid ")
		s.call("DELETE", messages+"/1", "").is(200)
	}
}

// A woken poll, and one that the daemon ends, are answered in the same form.
func TestPollAsBody(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	poll := func() <-chan reply {
		got := make(chan reply, 1)
		go func() {
			r, _ := h.send(c, "POST", "/v1/topics/orders/claim?as=body&wait=5m", "")
			got <- r
		}()
		h.waiting(1)
		return got
	}
	woken := poll()
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "one", Body: []byte("hello")})
	if r := storetest.Receive(t, "the message", woken); r.status != http.StatusOK || string(r.body) != "hello" || r.header.Get("Bellhop-Id") != "one" {
		t.Errorf("got %+v", r)
	}
	ended := poll()
	go h.Quiesce(t.Context())
	if r := storetest.Receive(t, "the end", ended); r.status != http.StatusNoContent {
		t.Errorf("got %+v", r)
	}
}
