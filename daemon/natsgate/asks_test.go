package natsgate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// faultsOf returns the names of the fields that a refusal reports, in order.
func faultsOf(t testing.TB, reply *nats.Msg) string {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(reply.Data, &p); err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
	for _, test := range []struct {
		broadcast bool
		headers   string
		names     string
		says      []string
	}{
		{false, "Id a If-Exists debounce", "delay", []string{"debounce puts the message off by it"}},
		{false, "Id a If-Exists debounce Delay 1m Max-Wait 59s", "max_wait", []string{"less than the delay"}},
		{false, "Unique-For 1h Then after", "then unique_for", []string{"the id is missing"}},
		{false, "Due 2030-01-02T08:00", "due", []string{"it has no offset"}},
		{false, "Due 2030-01-02T08:00Z Zone Europe/Berlin", "Bellhop-Due", []string{"write a time such as 2030-01-02T15:04:05Z"}},
		{true, "Due 2030-01-02T08:00:00Z Zone Europe/Berlin Spread -1s", "spread zone", []string{"due has an offset"}},
		{false, "Late drop", "late", []string{"late_after is missing"}},
		{false, "Lease 99ms Try-Timeout 25h", "lease try_timeout", []string{"use 100ms to 24h"}},
		{false, "Lease 99 Late-After x Late x Foo 1 Attempts -1", "Bellhop-Foo Bellhop-Late Bellhop-Late-After Bellhop-Lease attempts", []string{"Bellhop-Try-Timeout, Bellhop-Fail, Bellhop-Late-After"}},
		{true, "Lease 1s Then after If-Exists x", "Bellhop-If-Exists Bellhop-Lease Bellhop-Then", []string{"a broadcast has none"}},
	} {
		var headers []string
		for i, text := range strings.Fields(test.headers) {
			if i%2 == 0 {
				text = "Bellhop-" + text
			}
			headers = append(headers, text)
		}
		subject := "bellhop.publish."
		if test.broadcast {
			subject = "bellhop.publish-broadcast."
		}
		reply := request(t, conn, subject+topic, "x", headers...)
		wantRefused(t, reply, 422, test.says...)
		if got := faultsOf(t, reply); got != test.names {
			t.Errorf("%s: it names %s, want %s: %s", test.headers, got, test.names, reply.Data)
		}
	}
	if c := counts(t, store); c.Published != 0 || c.Broadcasts != 0 {
		t.Errorf("something was published: %+v", c)
	}
}

// A publish whose id is in use does what If-Exists and Then say, and answers what was done.
func TestIfExists(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	publish := func(headers ...string) api.Publication {
		t.Helper()
		return read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, strings.Join(headers, " "), append(headers, "Bellhop-Id", "a")...))
	}
	first := publish("Bellhop-Delay", "1h", "Bellhop-If-Exists", "keep")
	if p := publish("Bellhop-Delay", "2h", "Bellhop-If-Exists", "keep"); first.Outcome != notify.Created || p.Outcome != notify.Kept || !p.Due.Equal(first.Due) {
		t.Errorf("got %+v, then %+v", first, p)
	}
	if p := publish("Bellhop-Delay", "2h", "Bellhop-If-Exists", "debounce", "Bellhop-Max-Wait", "3h"); p.Outcome != notify.Moved || p.PreviousDue == nil || !p.PreviousDue.Equal(first.Due) {
		t.Errorf("got %+v", p)
	}
	reply := request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a")
	wantRefused(t, reply, 409, "id already in use")
	if !strings.Contains(string(reply.Data), `"outcome":"refused"`) {
		t.Errorf("got %s", reply.Data)
	}
	if p := publish("Bellhop-If-Exists", "replace"); p.Outcome != notify.Replaced || p.State != notify.Ready {
		t.Errorf("got %+v", p)
	}
	held, _ := claim(t, conn, "")
	wantRefused(t, request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a", "Bellhop-If-Exists", "keep"), 409, "leased")
	if p := publish("Bellhop-Then", "after", "Bellhop-Delay", "5h"); p.Outcome != notify.Created || p.State != notify.Leased {
		t.Errorf("got %+v", p)
	}
	wantRefused(t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a"}`), 409, "leased")
	if c := read[api.Cancelled](t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a","next":true}`)); c != api.CancelledOf(notify.Leased) {
		t.Errorf("got %+v", c)
	}
	wantRefused(t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a","next":true}`), 404, "no such message")
	publish("Bellhop-Then", "after", "Bellhop-Delay", "6h", "Bellhop-Unique-For", "1h")
	if m := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`)); m.Next == nil || m.Next.UniqueFor != 3_600_000 {
		t.Errorf("got %+v", m)
	}
	if reply := request(t, conn, held[0].Reply, "+ACK"); string(reply.Data) != "+OK" {
		t.Errorf("got %s", reply.Data)
	}
	if i := info(t, store, "a"); i.State != notify.Scheduled || i.UniqueFor != time.Hour {
		t.Errorf("got %+v", i)
	}
	if s := gate.Stats().Publisher; s != (notify.PublisherStats{Created: 3, Kept: 1, Replaced: 1, Moved: 1, Refused: 2}) {
		t.Errorf("counted %+v", s)
	}
}

// A message that is put off with a -NAK uses up no attempt. Where that is refused its
// lease goes on.
func TestSnooze(t *testing.T) {
	t.Parallel()
	conn, store, gate := open(t)
	m := body("a")
	m.TTL = time.Minute
	held := claimOne(t, conn, store, "", m)
	wantRefused(t, request(t, conn, held.Reply, `-NAK {"delay":"2m","attempt":"keep"}`), 422, "time to live")
	wantRefused(t, request(t, conn, held.Reply, `-NAK {"attempt":"use"}`), 422, "write keep")
	if reply := request(t, conn, held.Reply, `-NAK {"delay":"0s","attempt":"keep"}`); string(reply.Data) != "+OK" {
		t.Errorf("got %s", reply.Data)
	}
	wantRefused(t, request(t, conn, held.Reply, `-NAK {"attempt":"keep"}`), 409, "lease lost")
	read[api.Publication](t, request(t, conn, "bellhop.reschedule."+topic, `{"id":"a"}`))
	again, _ := claim(t, conn, "")
	if i := info(t, store, "a"); len(again) != 1 || again[0].Header.Get("Bellhop-Attempt") != "1" || i.Snoozed != 1 || i.Attempts != 0 {
		t.Errorf("got %+v", i)
	}
	if n := gate.Stats().Snoozed; n != 1 {
		t.Errorf("%d are counted", n)
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

// A delivery may be put off, and says if it is late.
func TestDeliveryIsPutOff(t *testing.T) {
	t.Parallel()
	conn, store, d := delivering(t, 1)
	got := subscribe(t, conn, deliverSubject)
	m, at := body("a"), time.Now().Add(-time.Hour)
	m.LateAfter, m.Due, m.Restore, m.MaxAttempts = time.Minute, at, &notify.Restore{Published: at, FirstDue: at}, 1
	storetest.Publish(t, store, m)
	for range 3 {
		one := wantDelivered(t, got, "a", 1)
		if one.Header.Get("Bellhop-Late") != "true" {
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

// A due time of a zone's wall clock is resolved, and told.
func TestLocalDue(t *testing.T) {
	t.Parallel()
	conn, _, _ := open(t)
	local := []string{"Bellhop-Due", "2099-03-29T02:30", "Bellhop-Zone", "Europe/Berlin"}
	want := time.Date(2099, 3, 29, 1, 0, 0, 0, time.UTC)
	for _, call := range []string{"publish", "publish-broadcast"} {
		if p := read[api.Publication](t, request(t, conn, "bellhop."+call+"."+topic, "x", local...)); !p.Due.Equal(want) {
			t.Errorf("%s: it is due at %v", call, p.Due)
		}
	}
	if p := read[api.Publication](t, request(t, conn, "bellhop.publish."+topic, "x", append(local, "Bellhop-Id", "b", "Bellhop-Spread", "1h")...)); p.Due.Sub(want) <= 0 || p.Due.Sub(want) > time.Hour {
		t.Errorf("it is due at %v", p.Due)
	}
}
