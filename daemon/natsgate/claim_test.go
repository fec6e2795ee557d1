package natsgate_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// claim claims from the topic and returns the messages, and the one that ends the reply.
func claim(t testing.TB, conn *nats.Conn, data string) (messages []*nats.Msg, end *nats.Msg) {
	t.Helper()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	storetest.Must(t, err)
	defer sub.Unsubscribe()
	storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, inbox, []byte(data)))
	for {
		m, err := sub.NextMsg(storetest.Deadline)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(messages), err)
		}
		if m.Header.Get("ce-id") == "" {
			return messages, m
		}
		messages = append(messages, m)
	}
}

// claimOne publishes a message and claims it.
func claimOne(t testing.TB, conn *nats.Conn, store *notify.Store, data string, m notify.Message) *nats.Msg {
	t.Helper()
	storetest.Publish(t, store, m)
	messages, end := claim(t, conn, data)
	if len(messages) != 1 || end.Header.Get("Status") != "204" {
		t.Fatalf("claimed %d messages, the end is %v %s", len(messages), end.Header, end.Data)
	}
	return messages[0]
}

func TestClaim(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	m := body("a~1")
	m.Due, m.Restore = time.Date(2001, 2, 3, 4, 5, 6, 7e6, time.UTC), &notify.Restore{}
	m.Body, m.ContentType = []byte("verbatim \x00\xff\r\n"), `text/plain; title="50% ä"`
	m.Headers, m.Key = map[string]string{"Trace-Id": "ä 1"}, "acct-7"
	began := time.Now()
	got := claimOne(t, conn, store, "", m)

	until, err := time.Parse(time.RFC3339, got.Header.Get("Bellhop-Lease-Until"))
	if most := time.Until(until); err != nil || until.Sub(began) < 30*time.Second-time.Millisecond || most > 30*time.Second+time.Millisecond {
		t.Errorf("the lease ends at %v, %v", until, err)
	}
	want := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"a~1"}, "ce-source": {"/" + store.Keys().Prefix() + "/" + topic}, "ce-type": {topic},
		"ce-time": {"2001-02-03T04:05:06.007Z"}, "ce-datacontenttype": {"text/plain;%20title=%2250%25%20%C3%A4%22"},
		"Bellhop-Attempt": {"1"}, "Bellhop-Late-Ms": got.Header["Bellhop-Late-Ms"], "Bellhop-First-Due": {info(t, store, "a~1").FirstDue.UTC().Format("2006-01-02T15:04:05.000Z")}, "Bellhop-Lease-Until": got.Header["Bellhop-Lease-Until"], "Bellhop-Header-Trace-Id": {"ä 1"}, "Bellhop-Key": {"acct-7"}, "Bellhop-Fence": got.Header["Bellhop-Fence"],
	}
	storetest.Same(t, "headers", want, got.Header)
	if late, err := strconv.ParseInt(got.Header.Get("Bellhop-Late-Ms"), 10, 64); err != nil || late < 25*365*24*3_600_000 {
		t.Errorf("it is %d ms late, %v", late, err)
	}
	if fence, err := strconv.ParseInt(got.Header.Get("Bellhop-Fence"), 10, 64); err != nil || fence <= 0 {
		t.Errorf("its fence is %d, %v", fence, err)
	}
	if string(got.Data) != string(m.Body) || !strings.HasPrefix(got.Reply, "bellhop.settle.") {
		t.Errorf("the data is %q, the reply subject %s", got.Data, got.Reply)
	}
	if n := gate.Stats().Claimed; n != 1 {
		t.Errorf("%d claimed messages are counted", n)
	}
}

func TestClaimSeveral(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	for i := range 5 {
		m := body(strconv.Itoa(i))
		m.Due = time.UnixMilli(int64(i + 1))
		storetest.Publish(t, store, m)
	}
	messages, end := claim(t, conn, `{"max":3,"lease":"1h"}`)
	if len(messages) != 3 || end.Header.Get("Status") != "204" || len(end.Data) != 0 || end.Reply != "" {
		t.Fatalf("claimed %d, the end is %v", len(messages), end)
	}
	for i, m := range messages {
		if id := m.Header.Get("ce-id"); id != strconv.Itoa(i) {
			t.Errorf("message %d is %s", i, id)
		}
	}
	if left := time.Until(info(t, store, "0").Until); left < 59*time.Minute {
		t.Errorf("the lease is %v", left)
	}
	if messages, _ := claim(t, conn, `{"max":500}`); len(messages) != 2 {
		t.Errorf("claimed %d, want the 2 that are left", len(messages))
	}
	if messages, end := claim(t, conn, ""); len(messages) != 0 || end.Header.Get("Status") != "204" {
		t.Errorf("claimed %d where there is none, the end is %v", len(messages), end)
	}
	// A client that expects one reply takes the first.
	storetest.Publish(t, store, body("last"))
	if m := request(t, conn, "bellhop.claim."+topic, ""); m.Header.Get("ce-id") != "last" {
		t.Errorf("got %v", m)
	}
}

func TestRefusedClaims(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	storetest.Publish(t, store, body("a"))
	for data, texts := range map[string][]string{
		`{"max":"1"}`:          {"max is a JSON string"},
		`{"min_age":"-1s"}`:    {"min_age -1s: it is negative"},
		`{"max":1,"wit":"1s"}`: {`"wit" is unknown`, "max, lease, min_age"},
		`{"wait":"6m"}`:        {"wait 6m", "5m"},
		`{"max":501,"lease":"1ms","min_age":"soon"}`: {`max "501"`, "lease 1ms", `min_age "soon"`},
		`{"max":1`:                 {"not JSON"},
		strings.Repeat("x", 10000): {"not a JSON object"},
	} {
		wantRefused(t, request(t, conn, "bellhop.claim."+topic, data), 422, texts...)
	}
	wantRefused(t, request(t, conn, "bellhop.claim.a:b", ""), 422, "topic")
	if got := info(t, store, "a").State; got != notify.Ready {
		t.Errorf("the message is %v", got)
	}
}

// A message that exceeds max_payload is kept as a dead letter with that reason.
func TestClaimTooLargeForNATS(t *testing.T) {
	t.Parallel()
	const maxPayload = 4096
	n, store := startNATS(t, func(o *server.Options) { o.MaxPayload = maxPayload }), storetest.Open(t)
	gate, _ := newGate(t, store, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	large, headers, fits := body("large"), body("headers"), body("fits")
	large.Body = make([]byte, maxPayload+1)
	headers.Headers = map[string]string{"A": strings.Repeat("x", maxPayload)}
	fits.Body = make([]byte, maxPayload-1000)
	for _, m := range []notify.Message{large, fits, headers} {
		storetest.Publish(t, store, m)
	}
	messages, end := claim(t, conn, `{"max":10}`)
	if len(messages) != 1 || messages[0].Header.Get("ce-id") != "fits" || end.Header.Get("Status") != "204" {
		t.Errorf("claimed %d, the end is %v", len(messages), end)
	}
	for _, id := range []string{"large", "headers"} {
		got := info(t, store, id)
		if got.State != notify.Dead || !strings.Contains(got.Reason, "max_payload is 4096") || !strings.Contains(got.Reason, "bytes with its headers") {
			t.Errorf("got %v, %q", got.State, got.Reason)
		}
	}
	if s := gate.Stats(); s.TooLarge != 2 || s.LostReplies != 0 {
		t.Errorf("counted %+v", s)
	}
	wantRefused(t, request(t, conn, "bellhop.inspect."+topic, `{"id":"large"}`), 500, "max_payload of nats is 4096")
}

// A claimed message that cannot be sent is ready again, and no attempt is used up.
func TestClaimThatCannotBeSent(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	gate, err := natsgate.New(store, natsgate.Options{URL: "nats://127.0.0.1:1"})
	storetest.Must(t, err)
	for i := range 5 {
		storetest.Publish(t, store, body(fmt.Sprint(i)))
	}
	due := info(t, store, "0").Due
	if _, err := gate.Claim(t.Context(), topic, []byte(`{"max":4}`)); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("claim without a connection: %v", err)
	}
	for i := range 5 {
		if got := info(t, store, fmt.Sprint(i)); got.State != notify.Ready || got.Attempts != 0 {
			t.Errorf("message %d is %v, %d attempts used up", i, got.State, got.Attempts)
		}
	}
	if got := info(t, store, "0").Due; !got.Equal(due) {
		t.Errorf("it is due %v, was %v", got, due)
	}
	if n := gate.Stats().LostReplies; n != 4 {
		t.Errorf("%d lost messages are counted, want 4", n)
	}
}

// However many clients claim large bodies that NATS does not take, the gateway claims no more than fit into memory.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	n, store := startNATS(t, nil), storetest.Open(t)
	var claimed atomic.Int64
	store.Observe(func(script string, _ time.Duration, err error) {
		if script == "claim" && err == nil {
			claimed.Add(1)
		}
	})
	w := newWire(t, n)
	gate, _ := newGate(t, store, natsgate.Options{URL: w.url()})
	conn := n.connect()
	serving(t, conn)
	const each, claims = 16, 2 * natsgate.MaxClaims // the bodies that fit into one reply of Redis
	for i := range claims * each {
		storetest.Publish(t, store, notify.Message{Topic: topic, ID: fmt.Sprint(i), Body: make([]byte, notify.DefaultMaxBody)})
	}
	w.fill(true)
	for range claims {
		storetest.Must(t, conn.PublishRequest("bellhop.claim."+topic, conn.NewInbox(), []byte(`{"max":500}`)))
	}
	most := int64(0)
	storetest.Eventually(t, "the gate gives up to send", func() bool {
		now, stats := claimed.Load(), gate.Stats()
		if stats.LostReplies == 0 { // otherwise some are released, and others claimed
			most = max(most, now-stats.Claimed/each)
		}
		return stats.LostReplies > 0
	})
	if most > natsgate.MaxClaims+1 { // one claim may have sent some
		t.Errorf("%d claims hold messages, and %d may be under way", most, natsgate.MaxClaims)
	}
}

// OnClaimed reports each claimed and each delivered message, with how late it was.
func TestHandedOutIsReported(t *testing.T) {
	t.Parallel()
	type handed struct {
		id   string
		late time.Duration
	}
	reported := make(chan handed, 10)
	conn, store, _ := outbound(t, natsgate.Options{
		OnClaimed: func(d subscribers.Delivery, late time.Duration) { reported <- handed{d.Topic + ":" + d.ID, late} },
	})
	serving(t, conn)
	got := subscribe(t, conn, "jobs.>")
	due := time.Now().Add(-time.Minute)
	want := func(id string) {
		t.Helper()
		switch h := storetest.Receive(t, "it is reported", reported); {
		case h.id != id:
			t.Errorf("reported %s, want %s", h.id, id)
		case h.late < time.Minute-time.Second || h.late > time.Since(due)+time.Second:
			t.Errorf("it was late by %v", h.late)
		}
	}
	m := body("a")
	m.Due, m.Restore = due, &notify.Restore{}
	claimOne(t, conn, store, `{"lease":"1h"}`, m)
	want(topic + ":a")
	m.Topic = "pushed"
	deliver(t, store, 1, m.Topic)
	storetest.Publish(t, store, m)
	answer(t, storetest.Receive(t, "it is delivered", got), "+ACK")
	want("pushed:a")
}
