package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The bytes on the wire: an id before the first event, then an event by the rules.
func TestStreamFormat(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{Quiet: 200 * time.Millisecond})
	carry(t, store)
	w := h.dial(t).say("GET /v1/topics/news/broadcasts HTTP/1.0\nHost: x\n\n")
	line := func() string {
		text, err := w.r.ReadString('\n')
		storetest.Must(t, err)
		return strings.TrimRight(text, "\r\n")
	}
	for line() != "" { // the header
	}
	if got := line(); got != "retry: 1000" {
		t.Errorf("got %q", got)
	}
	first, ok := strings.CutPrefix(line(), "id: ")
	if _, err := record.ParsePosition(first); !ok || err != nil || line() != "" {
		t.Errorf("the first id is %q, %v", first, err)
	}
	if got := line(); got != ":" || line() != "" {
		t.Errorf("got %q without an event", got)
	}
	send(t, store, "news", "a\nb\r\nc\rd\u2028e")
	id, event, data := "", "", ""
	for data == "" {
		switch field, value, _ := strings.Cut(line(), ": "); field {
		case "id":
			id = value
		case "event":
			event = value
		case "data":
			data = value
		}
	}
	var b api.Broadcast
	if err := json.Unmarshal([]byte(data), &b); err != nil || line() != "" || event != "broadcast" || string(b.Bytes()) != "a\nb\r\nc\rd\u2028e" {
		t.Errorf("got the event %q %q %v", event, data, err)
	}
	if strings.ContainsAny(data, "\u2028\r") {
		t.Errorf("%q", data)
	}
	if _, err := record.ParsePosition(id); err != nil || id == first {
		t.Errorf("its id is %q", id)
	}
}

func TestStreamBodies(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	s := h.listen(client(t), "news/broadcasts", "")
	for _, body := range [][]byte{
		bytes.Repeat([]byte{'x'}, notify.DefaultMaxBody), bytes.Repeat([]byte{0xff}, notify.DefaultMaxBody), {0, 1, 2, 0xfe}, []byte("\n\n"), []byte("data: x\n\n"), {},
	} {
		send(t, store, "news", string(body))
		b := s.broadcast()
		if got := b.Bytes(); !bytes.Equal(got, body) || b.Body == nil == utf8.Valid(body) {
			t.Errorf("got %d bytes, want %d", len(got), len(body))
		}
	}
}

func TestStreamBegins(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c := client(t)
	topicB := storetest.Beside(store, "news.a", "news.b") // broadcasts of one shard have an order
	first := h.listen(c, "news.*/broadcasts", "")
	send(t, store, "news.a", "1")
	send(t, store, topicB, "2")
	send(t, store, storetest.Beside(store, "news.a", "other"), "x")
	one := first.next()
	second := first.broadcast()
	if string(second.Bytes()) != "2" || second.Topic != topicB {
		t.Errorf("got %+v", second)
	}
	for path, want := range map[string]string{
		"news.*/broadcasts?since=beginning":               "1",
		"news.>/broadcasts?since=" + one.id:               "2",
		topicB + "/broadcasts?since=2020-01-01T00:00:00Z": "2",
		">/broadcasts?since=2020-01-01T00:00:00Z":         "1",
	} {
		if got := h.listen(c, path, "").broadcast(); string(got.Bytes()) != want {
			t.Errorf("%s: got %q, want %q", path, got.Bytes(), want)
		}
	}
	if got := h.listen(c, "news.>/broadcasts?since=beginning", one.id).broadcast(); string(got.Bytes()) != "2" {
		t.Errorf("Last-Event-ID beside since: got %q", got.Bytes())
	}
}

// A stream that goes on behind an event leaves out what expired since, and has no gap.
func TestStreamLeavesOutWhatExpired(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c, pub := client(t), storetest.Publisher(t, store)
	s := h.listen(c, "news/broadcasts", "")
	broadcast := func(body string, ttl time.Duration) {
		t.Helper()
		storetest.Must(t, storetest.ErrOf(pub.Broadcast(t.Context(), notify.Message{Topic: "news", Body: []byte(body), TTL: ttl})))
	}
	broadcast("first", 0)
	first := s.next().id
	broadcast("second", time.Second)
	broadcast("third", time.Hour)
	storetest.Eventually(t, "the second has expired", func() bool {
		s := h.listen(c, "news/broadcasts", first)
		defer s.Close()
		return string(s.broadcast().Bytes()) == "third"
	})
}

func TestStreamBeginsNowhere(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("GET", "/v1/topics/news.a/broadcasts?since=soon", "").is(422).says(`invalid since \"soon\": use now, beginning, a time`)
}

// Each broadcast comes once and in order over a restart of the daemon, a restart of
// Redis, and a cut in the middle of an event.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	store := storetest.Unhurried(storetest.At(t, server.URL(), "resume")) // a broadcast that is not answered in time may be sent twice
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c, n, seen := client(t), 0, 0
	s := h.listen(c, "news/broadcasts", "")
	sendOne := func() {
		n++
		storetest.Eventually(t, "a broadcast succeeds", func() bool {
			_, err := storetest.Publisher(t, store).Broadcast(t.Context(), notify.Message{Topic: "news", ID: fmt.Sprint(n), Body: fmt.Append(nil, n)})
			return err == nil || errors.Is(err, notify.ErrExists)
		})
	}
	wantAll := func() {
		t.Helper()
		for seen < n {
			seen++
			if got := s.broadcast(); string(got.Bytes()) != fmt.Sprint(seen) {
				t.Fatalf("got %s, want %d", got.Bytes(), seen)
			}
		}
	}
	sendOne()
	wantAll()
	stop(t, h)
	last := s.ended()
	sendOne()
	h = serve(t, store, httpapi.Options{}, httpapi.Timing{})
	s = h.listen(c, "news/broadcasts", last)
	sendOne()
	wantAll()
	server.Kill()
	again, err := server.Restart(t.Context())
	storetest.Must(t, err)
	defer again.Stop()
	sendOne()
	wantAll()
	s.Close()

	// In the middle: the id was read, the event was not.
	last = s.last
	sendOne()
	w := h.dial(t).say("GET /v1/topics/news/broadcasts HTTP/1.1\nHost: x\nLast-Event-ID: " + last + "\n\n")
	cut := &stream{t: t, events: make(chan event, 10), last: last}
	var text strings.Builder
	for !strings.Contains(text.String(), "data: {") {
		b, err := w.r.ReadByte()
		storetest.Must(t, err)
		text.WriteByte(b)
	}
	w.Close()
	_, after, _ := strings.Cut(text.String(), "retry:")
	cut.read(strings.NewReader("retry:" + after))
	s = h.listen(c, "news/broadcasts", cut.last)
	wantAll()
}

// Nor does a cut before the first event lose one.
func TestStreamResumesBeforeFirstEvent(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c := client(t)
	s := h.listen(c, "news/broadcasts", "")
	stop(t, h)
	last := s.ended()
	send(t, store, "news", "meanwhile")
	h = serve(t, store, httpapi.Options{}, httpapi.Timing{})
	if got := h.listen(c, "news/broadcasts", last).broadcast(); string(got.Bytes()) != "meanwhile" {
		t.Errorf("got %+v", got)
	}
}

func TestStreamTellsGap(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c := client(t)
	s := h.listen(c, "news/broadcasts", "")
	send(t, store, "news", "1")
	from := s.next().id
	send(t, store, "news", "2", "3")
	s.broadcast()
	s.broadcast()
	s.Close()
	storetest.Must(t, store.Client().XTrimMaxLen(t.Context(), store.KeysOf("news").Log("news"), 1).Err())
	s = h.listen(c, "news/broadcasts", from)
	e := s.next()
	var gap api.Gap
	if err := json.Unmarshal([]byte(e.data), &gap); err != nil || e.name != "gap" || gap.Topic != "news" || gap.After.String() != from || e.id != gap.UpTo.String() {
		t.Errorf("got %+v, want a gap after %s", e, from)
	}
	if got := s.broadcast(); string(got.Bytes()) != "3" {
		t.Errorf("after the gap came %q", got.Bytes())
	}
}

// Redis loses its data: a stream gets a gap, of each shard, and then the broadcasts sent afterwards.
func TestStreamTellsOfLostData(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	s := h.listen(client(t), "news.*/broadcasts", "")
	send(t, store, "news.a", "1")
	from := subscribers.Bookmark(s.next().id).Position()
	keys, err := store.Client().Keys(t.Context(), store.Keys().Prefix()+"*").Result()
	storetest.Must(t, err)
	storetest.Must(t, store.Client().Del(t.Context(), keys...).Err())
	behind := 0 // gaps behind the broadcast
	for range storetest.Shards() {
		e := s.next()
		var gap api.Gap
		if err := json.Unmarshal([]byte(e.data), &gap); err != nil || e.name != "gap" || gap.Topic != "news.*" || gap.UpTo <= gap.After {
			t.Errorf("got %+v, want a gap", e)
		}
		if gap.After == from {
			behind++
		}
	}
	if behind != 1 {
		t.Errorf("%d gaps are behind %s", behind, from)
	}
	send(t, store, "news.a", "2")
	if got := s.broadcast(); string(got.Bytes()) != "2" {
		t.Errorf("after the gap came %q", got.Bytes())
	}
}

func TestStreamsShareASubscription(t *testing.T) {
	t.Parallel()
	user := storetest.NewUser(t)
	storetest.Beat(t, user.Admin)
	store := user.Store
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	storetest.Eventually(t, "the polls are subscribed", func() bool { return pubsubs(t, user) == 1 })
	var all []*stream
	for range 500 {
		all = append(all, h.listen(c, "news/broadcasts", ""))
	}
	connections := 2 // one for polls and one for streams, or of several shards one for all
	if storetest.Shards() > 1 {
		connections = 1
	}
	if n := pubsubs(t, user); n != connections {
		t.Errorf("%d connections are subscribed, want %d", n, connections)
	}
	if n := h.Stats().Streams; n != 500 {
		t.Errorf("%d streams are counted", n)
	}
	carry(t, store)
	send(t, store, "news", "to all")
	for _, s := range all {
		if got := s.broadcast(); string(got.Bytes()) != "to all" {
			t.Errorf("got %+v", got)
		}
	}
	for _, s := range all {
		s.Close()
	}
	storetest.Eventually(t, "no stream is left", func() bool { return h.Stats().Streams == 0 })
}

// A client that reads nothing delays no other, and is cut off when its time is over.
func TestStreamIsNotRead(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	patient, hasty := serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Hour}), serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Second})
	carry(t, store)
	for _, h := range []*host{patient, hasty} {
		w := h.dial(t)
		_ = w.Conn.(*net.TCPConn).SetReadBuffer(4096)
		w.say("GET /v1/topics/news/broadcasts HTTP/1.1\nHost: x\n\n")
		if _, err := w.r.Peek(1); err != nil { // its answer begins when it listens
			t.Fatal(err)
		}
	}
	reader := patient.listen(client(t), "news/broadcasts", "")
	body := strings.Repeat("x", notify.DefaultMaxBody)
	for range 60 { // more than fits between the daemon and the client
		send(t, store, "news", body)
		if got := reader.broadcast(); len(got.Bytes()) != len(body) {
			t.Fatalf("the other got %d bytes", len(got.Bytes()))
		}
	}
	if n := patient.Stats().Streams; n != 2 {
		t.Errorf("%d streams are left before their time is over", n)
	}
	storetest.Eventually(t, "it is cut off", func() bool { return hasty.Stats().Streams == 0 })
}

// A stop does not wait for a client that reads nothing.
func TestStopDoesNotWaitForStreams(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{Answer: time.Hour, Closed: 50 * time.Millisecond})
	carry(t, store)
	w := h.dial(t)
	_ = w.Conn.(*net.TCPConn).SetReadBuffer(4096)
	w.say("GET /v1/topics/news/broadcasts HTTP/1.1\nHost: x\n\n")
	if _, err := w.r.Peek(1); err != nil { // its answer begins when it listens
		t.Fatal(err)
	}
	body := strings.Repeat("x", notify.DefaultMaxBody)
	for range 60 {
		send(t, store, "news", body)
	}
	stop(t, h)
	if n := h.Stats().Streams; n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

// A slow client, too, gets thousands of broadcasts in order.
func TestStreamIsSlow(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	w := h.dial(t)
	w.say("GET /v1/topics/news/broadcasts HTTP/1.0\nHost: x\n\n")
	if _, err := w.r.Peek(1); err != nil { // its answer begins when it listens
		t.Fatal(err)
	}
	const n = 5000
	for i := 0; i < n; i += 500 {
		bodies := make([]string, 500)
		for j := range bodies {
			bodies[j] = fmt.Sprint(i+j, strings.Repeat(".", 2000))
		}
		send(t, store, "news", bodies...)
	}
	slow := &stream{t: t, events: make(chan event, n)}
	go func() {
		slow.read(w.r)
		close(slow.events)
	}()
	for i := range n {
		if got := slow.broadcast(); !strings.HasPrefix(string(got.Bytes()), fmt.Sprint(i, ".")) {
			t.Fatalf("got %.20s, want %d", got.Bytes(), i)
		}
	}
	w.Close()
}

// Without Redis a new stream is refused, and an open one stays open.
func TestStreamWithoutRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	store := storetest.Unhurried(storetest.At(t, server.URL(), "away"))
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{Quiet: 20 * time.Millisecond})
	c := client(t)
	s := h.listen(c, "news/broadcasts", "")
	server.Kill()
	h.want(c, http.StatusServiceUnavailable, "GET", "/v1/topics/news/broadcasts", "")
	for range 3 {
		if e := storetest.Receive(t, "a comment", s.events); e.comment != ":" {
			t.Errorf("got %+v", e)
		}
	}
	if h.Stats().Streams != 1 {
		t.Error("the stream has ended")
	}
}

// BenchmarkPoll measures the time from a publish to the answer of a poll.
func BenchmarkPoll(b *testing.B) {
	store := storetest.Open(b)
	h := serve(b, store, httpapi.Options{}, httpapi.Timing{})
	c := client(b)
	pub := storetest.Publisher(b, store)
	for b.Loop() {
		b.StopTimer()
		got := h.claim(c, "orders", "wait=1m")
		h.waiting(1)
		storetest.Eventually(b, "it is in the waiting list", func() bool {
			n, err := store.Client().ZCard(context.Background(), store.KeysOf("orders").Waiting("orders")).Result()
			return err == nil && n > 0
		})
		b.StartTimer()
		storetest.Must(b, storetest.ErrOf(pub.Publish(b.Context(), notify.Message{Topic: "orders", Body: []byte("x")})))
		ids(b, <-got)
	}
}

// A stream of topics in many shards that is cut goes on behind its last event: each broadcast comes once, in the order of its topic.
func TestStreamOfManyShards(t *testing.T) {
	t.Parallel()
	store := storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: "test-" + notify.NewID(), Shards: 8})
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	carry(t, store)
	c := client(t)
	s := h.listen(c, "news.*/broadcasts", "")
	const topics, each = 24, 5
	for i := range topics * each {
		send(t, store, fmt.Sprintf("news.%d", i%topics), fmt.Sprint(i/topics))
	}
	got, last := make(map[string]string), ""
	for i := range topics * each {
		if i%7 == 3 {
			s.Close()
			s = h.listen(c, "news.*/broadcasts", last)
		}
		e := s.next()
		var b api.Broadcast
		storetest.Must(t, json.Unmarshal([]byte(e.data), &b))
		got[b.Topic] += string(b.Bytes())
		last = e.id
	}
	for i := range topics {
		if topic := fmt.Sprintf("news.%d", i); got[topic] != "01234" {
			t.Errorf("of %s came %s", topic, got[topic])
		}
	}
	for path, want := range map[string]string{
		"news.*/broadcasts?since=1732128000123-456": "the position of one broadcast",
		"news.*/broadcasts?since=8.AAAA":            "since",
		"news.*/broadcasts?since=4.CgABAAA":         "a store of 4 shards, and this one has 8",
	} {
		response, err := c.Get(h.url("/v1/topics/" + path))
		storetest.Must(t, err)
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), want) || !strings.Contains(string(text), `"since"`) {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
}
