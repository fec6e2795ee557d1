package natsgate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// faultsOf returns the names of the fields that a refusal reports, in order.
func faultsOf(t testing.TB, reply *nats.Msg) string {
	t.Helper()
	var p api.Problem
	storetest.Must(t, json.Unmarshal(reply.Data, &p))
	var names []string
	for _, f := range p.Errors {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// What a message asks for is kept with it, and shown.
func TestAsks(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a", "Bellhop-Delay", "1h",
		"Bellhop-Lease", "45s", "Bellhop-Try-Timeout", "5m", "Bellhop-Fail", "drop", "bellhop-late-after", "10m", "Bellhop-Late", "bury", "Bellhop-Unique-For", "1d"))
	got := info(t, store, "a").Record
	want := notify.Record{
		Published: got.Published, FirstDue: got.FirstDue, Lease: 45 * time.Second, TryTimeout: 5 * time.Minute, Fail: notify.FailDrop,
		LateAfter: 10 * time.Minute, Late: notify.LateBury, UniqueFor: 24 * time.Hour, Body: []byte("x"),
	}
	storetest.Same(t, "record", want, got)
	for _, call := range []string{"publish", "publish-broadcast"} { // by a wall clock
		if p := read[api.Publication](t, request(t, conn, "bellhop."+call+"."+topic, "x", "Bellhop-Due", "2099-03-29T02:30", "Bellhop-Zone", "Europe/Berlin")); !p.Due.Equal(time.Date(2099, 3, 29, 1, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: it is due at %v", call, p.Due)
		}
	}
	read[api.Publication](t, request(t, conn, "bellhop.publish-broadcast."+topic, "x", "Bellhop-Id", "b", "Bellhop-Delay", "1h", "Bellhop-Ttl", "1m", "Bellhop-Unique-For", "1h"))
	if got := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"b"}`)); got.TTL != 60_000 || got.UniqueFor != 3_600_000 {
		t.Errorf("got %+v", got)
	}
}

// Of a wrong request all faults are reported at once, and nothing is changed.
func TestWrongAsks(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	for _, test := range []struct{ subject, headers, names, says string }{
		{"publish", "Id a If-Exists debounce Delay 1m Max-Wait 59s", "max_wait", "less than the delay"},
		{"publish", "Unique-For 1h Then after", "then unique_for", "the id is missing"},
		{"publish", "Due 2030-01-02T08:00", "due", "it has no offset"},
		{"publish", "Due 2030-01-02T08:00Z Zone Europe/Berlin", "Bellhop-Due", "write a time such as 2030-01-02T15:04:05Z"},
		{"publish", "Lease 99ms Try-Timeout 25h", "lease try_timeout", "use 100ms to 24h"},
		{"publish", "Lease 99 Late-After x Late x Foo 1 Attempts -1", "Bellhop-Foo Bellhop-Late Bellhop-Late-After Bellhop-Lease attempts", "Bellhop-Try-Timeout, Bellhop-Fail, Bellhop-Late-After"},
		{"publish-broadcast", "Due 2030-01-02T08:00:00Z Zone Europe/Berlin Spread -1s", "spread zone", "due has an offset"},
		{"publish-broadcast", "Lease 1s Then after If-Exists x", "Bellhop-If-Exists Bellhop-Lease Bellhop-Then", "a broadcast has none"},
	} {
		headers := strings.Fields(test.headers)
		for i := 0; i < len(headers); i += 2 {
			headers[i] = "Bellhop-" + headers[i]
		}
		reply := request(t, conn, "bellhop."+test.subject+"."+topic, "x", headers...)
		wantRefused(t, reply, 422, test.says)
		if got := faultsOf(t, reply); got != test.names {
			t.Errorf("%s: it names %s, want %s: %s", test.headers, got, test.names, reply.Data)
		}
	}
	if c := counts(t, store); c.Published != 0 || c.Broadcasts != 0 {
		t.Errorf("something was published: %+v", c)
	}
}

// A publish whose id is in use does what If-Exists and Then say, and answers what was done, which is counted.
func TestIfExists(t *testing.T) {
	t.Parallel()
	conn, _, gate := open(t)
	publish := func(headers ...string) api.Publication {
		t.Helper()
		return read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", append(headers, "Bellhop-Id", "a")...))
	}
	first := publish("Bellhop-Delay", "1h", "Bellhop-If-Exists", "keep")
	if p := publish("Bellhop-Delay", "2h", "Bellhop-If-Exists", "keep"); first.Outcome != notify.Created || p.Outcome != notify.Kept || !p.Due.Equal(first.Due) {
		t.Errorf("got %+v, then %+v", first, p)
	}
	if p := publish("Bellhop-Delay", "2h", "Bellhop-If-Exists", "debounce", "Bellhop-Max-Wait", "3h"); p.Outcome != notify.Moved || p.PreviousDue == nil || !p.PreviousDue.Equal(first.Due) {
		t.Errorf("got %+v", p)
	}
	reply := request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a")
	if wantRefused(t, reply, 409, "id already in use"); !strings.Contains(string(reply.Data), `"outcome":"refused"`) {
		t.Errorf("got %s", reply.Data)
	}
	if p := publish("Bellhop-If-Exists", "replace"); p.Outcome != notify.Replaced || p.State != notify.Ready {
		t.Errorf("got %+v", p)
	}
	claim(t, conn, "")
	wantRefused(t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a", "Bellhop-If-Exists", "keep"), 409, "leased")
	if p := publish("Bellhop-Then", "after", "Bellhop-Delay", "5h", "Bellhop-Unique-For", "1h"); p.Outcome != notify.Created || p.State != notify.Leased {
		t.Errorf("got %+v", p)
	}
	if m := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`)); m.Next == nil || m.Next.UniqueFor != 3_600_000 {
		t.Errorf("got %+v", m)
	}
	if c := read[calls.Cancelled](t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a","next":true}`)); c != (calls.Cancelled{Cancelled: true, Was: notify.Leased}) {
		t.Errorf("got %+v", c)
	}
	if s := gate.Stats().Publisher; s != (notify.PublisherStats{Created: 2, Kept: 1, Replaced: 1, Moved: 1, Refused: 2}) {
		t.Errorf("counted %+v", s)
	}
}

// A message is put off with a -NAK of the attempt keep. Where that is refused its lease goes on.
func TestSnooze(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	m := body("a")
	m.TTL = time.Minute
	held := claimOne(t, conn, store, "", m)
	wantRefused(t, request(t, conn, held.Reply, `-NAK {"delay":"2m","attempt":"keep"}`), 422, "time to live")
	settle(t, conn, held, `-NAK {"delay":"0s","attempt":"keep"}`)
	if i := info(t, store, "a"); i.Snoozed != 1 || i.Attempts != 0 || gate.Stats().Snoozed != 1 {
		t.Errorf("got %+v, and %d are counted", i, gate.Stats().Snoozed)
	}
}

// A claim with {"ack":"now"} acknowledges what it hands out: there is nothing to settle.
func TestAckNow(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	m := claimOne(t, conn, store, `{"ack":"now"}`, body("a"))
	if m.Reply != "" || m.Header.Get("Bellhop-Lease-Until") != "" || string(m.Data) != "body of a" {
		t.Errorf("got %v %s, the reply subject %q", m.Header, m.Data, m.Reply)
	}
	if c := counts(t, store); c.Acked != 1 || c.Leased+c.Ready != 0 || !gone(t, store, "a") {
		t.Errorf("counted %+v", c)
	}
	_, end := claim(t, conn, `{"ack":"now","lease":"1ms","max":501}`)
	wantRefused(t, end, 422, "give one of them", "use 100ms to 24h", "a whole number from 1 to 500")
	_, end = claim(t, conn, `{"ack":"later"}`)
	wantRefused(t, end, 422, "use now")
}

// A delivery may be put off, and says when it was first due.
func TestDeliveryIsPutOff(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 1)
	got := subscribe(t, conn, deliverSubject)
	m, at := body("a"), time.Now().Add(-time.Hour)
	m.Due, m.Restore, m.MaxAttempts = at, &notify.Restore{Published: at, FirstDue: at}, 1
	storetest.Publish(t, store, m)
	for range 3 {
		one := wantDelivered(t, got, "a", 1)
		if first, err := time.Parse(time.RFC3339Nano, one.Header.Get("Bellhop-First-Due")); err != nil || time.Since(first) < time.Hour {
			t.Errorf("got %v", one.Header)
		}
		answer(t, one, `-NAK {"delay":"1ms","attempt":"keep"}`)
	}
	answer(t, wantDelivered(t, got, "a", 1), "+ACK")
	storetest.Eventually(t, "it is acknowledged", func() bool { return counts(t, store).Acked == 1 })
	if n := d.Stats().Snoozed; n != 3 {
		t.Errorf("%d are counted", n)
	}
}
