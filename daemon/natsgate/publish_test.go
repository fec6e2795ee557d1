package natsgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	data := "binary \x00\xff\r\n body"
	p := read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, data,
		"bellhop-id", "a", "BELLHOP-DUE", "2199-01-02T03:04:05Z", "Bellhop-Ttl", "1h", "Bellhop-Attempts", "3",
		"content-type", "text/plain; charset=utf-8", "Bellhop-Header-Trace-Id", "ä 1", "traceparent", "none of ours"))
	if want := (api.Publication{Topic: topic, ID: "a", Due: future, State: notify.Scheduled, Outcome: notify.Created}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	got := info(t, store, "a")
	want := notify.Record{
		Published: got.Published, FirstDue: future.Local(), ContentType: "text/plain; charset=utf-8", Headers: map[string]string{"Trace-Id": "ä 1"},
		TTL: time.Hour, MaxAttempts: 3, Body: []byte(data),
	}
	storetest.Same(t, "record", want, got.Record)
}

func TestPublishWithNothingButABody(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	p := read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x"))
	if p.ID == "" || p.State != notify.Ready || p.Due.Location() != time.UTC {
		t.Errorf("got %+v", p)
	}
	if got := info(t, store, p.ID); string(got.Body) != "x" {
		t.Errorf("got %+v", got)
	}
	delayed := read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x",
		"Bellhop-Delay", "1h", "ce-datacontenttype", "text/plain;%20charset=utf-8"))
	if d := time.Until(delayed.Due); d < 50*time.Minute || d > time.Hour+time.Minute || delayed.State != notify.Scheduled {
		t.Errorf("got %+v", delayed)
	}
	if got := info(t, store, delayed.ID).ContentType; got != "text/plain; charset=utf-8" {
		t.Errorf("the content type is %q", got)
	}
}

func TestPublishBroadcast(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	p := read[api.Publication](t, request(t, conn, "bellhop.publish-broadcast."+topic, "42",
		"Bellhop-Id", "b", "Bellhop-Due", "2199-01-02T03:04:05Z", "Bellhop-Header-A", "1"))
	if want := (api.Publication{Topic: topic, ID: "b", Due: future, State: notify.Scheduled, Outcome: notify.Created}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if got := info(t, store, "b"); !got.Broadcast || got.Headers["A"] != "1" {
		t.Errorf("got %+v", got)
	}
	if m := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"b"}`)); m.Mode != "broadcast" {
		t.Errorf("got %+v", m)
	}
	for _, name := range []string{"Bellhop-Lease", "bellhop-attempts"} {
		wantRefused(t, request(t, conn, "bellhop.publish-broadcast."+topic, "42", name, "0"), 422, name, "a broadcast has none")
	}
	reply := request(t, conn, "bellhop.publish-broadcast."+topic, "42", "Bellhop-Foo", "0")
	wantRefused(t, reply, 422, "Bellhop-Foo", "use Bellhop-Id, Bellhop-Delay")
	if strings.Contains(string(reply.Data), "Bellhop-Late") {
		t.Errorf("a header that a broadcast has not is named: %s", reply.Data)
	}
}

func TestRefusedPublish(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	for _, test := range []struct {
		what    string
		topic   string
		data    string
		headers []string
		status  int
		texts   []string
	}{
		{"a topic with a sign", "a.b:c", "x", nil, 422, []string{"topic", "a.b:c"}},
		{"a body that is too large", topic, strings.Repeat("x", notify.DefaultMaxBody+1), nil, 413, []string{"262145", "262144"}},
		{"an empty id", topic, "x", []string{"Bellhop-Id", ""}, 422, []string{"Bellhop-Id", "it is empty"}},
		{"two ids", topic, "x", []string{"Bellhop-Id", "a", "Bellhop-Id", "b"}, 422, []string{"Bellhop-Id", "twice"}},
		{"two ids by their case", topic, "x", []string{"Bellhop-Id", "a", "bellhop-id", "a"}, 422, []string{"bellhop-id", "twice"}},
		{"a binary id", topic, "x", []string{"Bellhop-Id", "\xff\x01"}, 422, []string{"Bellhop-Id"}},
		{"a delay without a unit", topic, "x", []string{"Bellhop-Delay", "5"}, 422, []string{"Bellhop-Delay", "90s"}},
		{"an empty delay", topic, "x", []string{"Bellhop-Delay", ""}, 422, []string{"Bellhop-Delay", "empty"}},
		{"a due time that is none", topic, "x", []string{"Bellhop-Due", "tomorrow"}, 422, []string{"Bellhop-Due", "2030-01-02T15:04:05Z"}},
		{"a delay and a due time", topic, "x", []string{"Bellhop-Delay", "5s", "Bellhop-Due", "2199-01-02T03:04:05Z"}, 422, []string{"both"}},
		{"two content types", topic, "x", []string{"Content-Type", "a/b", "ce-datacontenttype", "a/b"}, 422, []string{"both"}},
		{"a content type that is badly encoded", topic, "x", []string{"ce-datacontenttype", "a%"}, 422, []string{"ce-datacontenttype", "%25"}},
		{"a header of ours that is unknown", topic, "x", []string{"Bellhop-Priority", "1"}, 422, []string{"Bellhop-Priority", "Bellhop-Ttl"}},
		{"a header to carry twice", topic, "x", []string{"Bellhop-Header-A", "1", "Bellhop-Header-a", "1"}, 422, []string{"twice"}},
		{"a group of another topic", topic, "x", []string{"Bellhop-After-Group", "other:g"}, 422, []string{"after_group other:g", "publish it to other, or over HTTP"}},
		{"a binary header", topic, "x", []string{"Bellhop-Header-A", "\xff"}, 422, []string{"header A", "UTF-8"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			wantRefused(t, request(t, conn, "bellhop.publish."+test.topic, test.data, test.headers...), test.status, test.texts...)
		})
	}
	storetest.Empty(t, store)
	if n := gate.Stats().Endpoints["publish"]; n.Refused < 15 || n.Failed != 0 || n.Requests != n.Refused {
		t.Errorf("counted %+v", n)
	}
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a"))
	wantRefused(t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a"), 409, "id already in use")
}

// Over NATS a message waits for groups of its own topic.
func TestPublishAfterGroup(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a", "Bellhop-Group", "g", "Bellhop-Delay", "1h"))
	done := read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "done", "Bellhop-After-Group", topic+":g"))
	if done.Left == nil || *done.Left != 1 || done.State != notify.Scheduled {
		t.Errorf("got %+v", done)
	}
	if got := info(t, store, "a").Group; got != "g" {
		t.Errorf("a is in the group %q", got)
	}
	wantRefused(t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-After-Group", topic+":g"), 409, "done")
}

// A message is inspected as it is; wrong requests are refused with what is wrong.
func TestInspect(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	m := body("a")
	m.Due, m.TTL, m.MaxAttempts, m.ContentType = future, time.Hour, 3, "text/plain"
	storetest.Publish(t, store, m)
	got := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`))
	expires := future.Add(time.Hour)
	want := api.Message{
		Topic: topic, ID: "a", State: notify.Scheduled, Due: &future, FirstDue: &future, Published: got.Published, Expires: &expires,
		Options: asked.Options{TTL: 3600000, MaxAttempts: 3, ContentType: "text/plain"}, Text: api.TextOf([]byte("body of a")),
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Published == nil {
		t.Error(diff)
	}
	wantRefused(t, request(t, conn, "bellhop.inspect."+topic, `{"id":"none"}`), 404, "no such message")
	for data, text := range map[string]string{``: "id: it is missing", `["a"]`: "it is not a JSON object", `{"id":"a","since":"1s"}`: `"since" is unknown`} {
		wantRefused(t, request(t, conn, "bellhop.inspect."+topic, data), 422, text)
	}
	wantRefused(t, request(t, conn, "bellhop.inspect.a:b", `{"id":"a"}`), 422, "topic")
}

// A message may have no body, whichever way it is published and received.
func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	conn, store, _ := delivering(t, 1)
	broadcasts, delivered := subscribe(t, conn, "bellhop.broadcast."+topic), subscribe(t, conn, deliverSubject)
	serving(t, conn)
	read[api.Publication](t, request(t, conn, "bellhop.publish-broadcast."+topic, "", "Bellhop-Id", "all"))
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "", "Bellhop-Id", "one"))
	if m := storetest.Receive(t, "the broadcast", broadcasts); m.Header.Get("ce-id") != "all" || len(m.Data) != 0 {
		t.Errorf("received %v", m)
	}
	m := wantDelivered(t, delivered, "one", 1)
	if len(m.Data) != 0 {
		t.Errorf("got %q", m.Data)
	}
	answer(t, m, "+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return counts(t, store).Acked == 1 })
	read[api.Publication](t, request(t, conn, "bellhop.publish.other", ""))
	if m := request(t, conn, "bellhop.claim.other", ""); m.Header.Get("ce-id") == "" || len(m.Data) != 0 {
		t.Errorf("claimed %v", m)
	}
}
