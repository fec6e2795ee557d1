package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	topicPath = "/v1/topics/orders"
	messages  = topicPath + "/messages"
)

// settle returns the address of a call that settles a message.
func settle(d api.Delivery, call, query string) string {
	return fmt.Sprintf("%s/%s/%s?receipt=%d%s", messages, d.ID, call, d.Receipt, query)
}

// look inspects a message.
// receiptOf returns a delivery that only has a receipt.
func receiptOf(id string, receipt subscribers.Receipt) api.Delivery {
	return api.Delivery{Receipt: receipt, Key: api.Key{ID: id}}
}

func (s *server) look(id string) api.Message {
	s.t.Helper()
	return read[api.Message](s.call("GET", messages+"/"+id, "").is(200))
}

func TestStatesThatForbid(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("GET", messages+"/none", "").is(404).kind("not-found")
	s.call("PATCH", messages+"/none", "").is(404).kind("not-found")
	s.call("DELETE", messages+"/none", "").is(404).kind("not-found")

	s.call("POST", messages+"?id=a&delay=1h", "x").is(201)
	s.call("POST", messages+"?id=a", "y").is(409).kind("exists")
	s.call("PATCH", messages+"/a", "").is(200).says(`"ready"`)
	d := s.claim("orders")
	same := s.unchanged()
	s.call("POST", messages+"?id=a", "y").is(409).kind("exists")
	s.call("PATCH", messages+"/a?delay=1s", "").is(409).kind("leased")
	s.call("DELETE", messages+"/a", "").is(409).kind("leased")
	stale := d
	stale.Receipt--
	for _, lost := range []api.Delivery{stale, receiptOf("none", d.Receipt), receiptOf("a", 1), receiptOf("a", 1<<63-1)} {
		s.call("POST", settle(lost, "ack", ""), "").is(409).kind("lease-lost")
		s.call("POST", settle(lost, "nack", ""), "").is(409).kind("lease-lost")
		s.call("POST", settle(lost, "nack", "&delay=1s"), "").is(409).kind("lease-lost")
		s.call("POST", settle(lost, "nack", "&dead=true"), "").is(409).kind("lease-lost")
		s.call("POST", settle(lost, "extend", ""), "").is(409).kind("lease-lost")
		got := read[api.Acked](s.call("POST", topicPath+"/ack", fmt.Sprintf(`[{"id":%q,"receipt":%d}]`, lost.ID, lost.Receipt)).is(200))
		if got.Acked != 0 || len(got.Lost) != 1 {
			t.Errorf("got %+v", got)
		}
	}
	s.call("POST", settle(d, "nack", "&dead=true&delay=1s"), "").is(422).says("delay")
	same()

	s.call("POST", settle(d, "nack", "&dead=true&reason=no%20such%20order%0Aat%20all"), "").is(204)
	if got := s.look("a"); got.State != notify.Dead || got.Reason != "no such order\nat all" {
		t.Errorf("got %+v", got)
	}
	s.call("PATCH", messages+"/a", "").is(409).kind("dead")
	s.call("POST", messages+"?id=a", "y").is(409).kind("exists")
	s.call("POST", settle(d, "ack", ""), "").is(409).kind("lease-lost")
	s.call("DELETE", messages+"/a", "").is(200).says(`"dead"`)
	s.call("DELETE", messages+"/a", "").is(404)
	storetest.Empty(t, s.store)
}

// The type that curl -d sends with any body is none. Any other one is kept, also that of a form which a browser sends.
func TestTypeOfCurl(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for kind, want := range map[string]string{
		"application/x-www-form-urlencoded": "", "application/x-www-form-urlencoded;charset=UTF-8": "application/x-www-form-urlencoded;charset=UTF-8", "text/plain": "text/plain",
	} {
		s.call("POST", messages+"?id=a", "x", "Content-Type: "+kind).is(201)
		d := s.claim("orders")
		s.call("POST", settle(d, "ack", ""), "").is(204)
		if got := d.ContentType; got != want {
			t.Errorf("%q is kept as %q", kind, got)
		}
	}
}

// A worker with a heartbeat settles by the receipt of its claim, however often it extended the lease.
func TestExtendKeepsTheReceipt(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for what, end := range map[string]func(api.Delivery){
		"ack":  func(d api.Delivery) { s.call("POST", settle(d, "ack", ""), "").is(204) },
		"keep": func(d api.Delivery) { s.call("POST", settle(d, "ack", "&keep=1h"), "done").is(204) },
		"nack": func(d api.Delivery) { s.call("POST", settle(d, "nack", "&delay=1h"), "").is(204) },
		"bury": func(d api.Delivery) { s.call("POST", settle(d, "nack", "&dead=true"), "").is(204) },
		"many": func(d api.Delivery) {
			s.call("POST", topicPath+"/ack", fmt.Sprintf(`[{"id":%q,"receipt":%d}]`, d.ID, d.Receipt)).is(200).says(`"acked":1`)
		},
	} {
		s.call("POST", messages+"?id="+what, "x").is(201)
		d := s.claim("orders")
		for _, lease := range []time.Duration{time.Hour, 2 * time.Hour} {
			next := read[api.Extended](s.call("POST", settle(d, "extend", "&lease="+lease.String()), "").is(200))
			if got := s.look(what); next.Receipt != d.Receipt || !got.Until.Equal(next.Until) {
				t.Errorf("%s: it is leased until %v, and extended to %+v by %d", what, got.Until, next, d.Receipt)
			}
		}
		end(d)
		s.call("POST", settle(d, "extend", ""), "").is(409).kind("lease-lost")
		s.call("POST", settle(d, "ack", ""), "").is(409).kind("lease-lost")
	}
}

// An ack that is repeated because its answer was lost is answered with lease-lost, and does no harm.
func TestAckTwice(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	d := s.claim("orders")
	s.call("POST", settle(d, "ack", ""), "").is(204)
	s.call("POST", settle(d, "ack", ""), "").is(409).kind("lease-lost")
	s.call("POST", messages+"?id=a", "again").is(201) // the id is free
	s.call("POST", settle(d, "ack", ""), "").is(409).kind("lease-lost")
	if got := s.claim("orders"); string(got.Bytes()) != "again" || got.Attempt != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestNack(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Set(t, s.store, "orders", notify.SettingsChange{Attempts: new(3), BackoffMin: new(time.Hour), BackoffMax: new(100 * time.Hour)})
	s.call("POST", messages+"?id=a", "x").is(201)
	first := s.claim("orders")
	s.call("POST", settle(first, "nack", "&delay=0s&reason=first"), "").is(204)
	if got := s.look("a"); got.State != notify.Scheduled && got.State != notify.Ready || got.AttemptsUsed != 1 {
		t.Errorf("got %+v", got)
	}
	s.call("PATCH", messages+"/a", "").is(200).says(`"ready"`) // no carrier runs here
	d := s.claim("orders")
	if d.Attempt != 2 || !d.FirstDue.Equal(first.Due) || !d.FirstDue.Equal(*first.FirstDue) {
		t.Errorf("got %+v after %+v", d, first)
	}
	s.call("POST", settle(d, "nack", ""), "").is(204)
	got := s.look("a")
	// The second backoff is up to two hours; less than a second is improbable.
	if wait := time.Until(*got.Due); got.State != notify.Scheduled || wait < time.Millisecond || wait > 2*time.Hour {
		t.Errorf("got %+v, due in %v", got, wait)
	}
	s.call("PATCH", messages+"/a", "").is(200)
	s.call("POST", settle(s.claim("orders"), "nack", "&reason=third"), "").is(204)
	if got := s.look("a"); got.State != notify.Dead || got.Reason == "" || got.AttemptsUsed != 3 || !got.FirstDue.Equal(first.Due) {
		t.Errorf("got %+v", got)
	}
}

func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	carry(t, s.store)
	s.call("POST", messages+"?id=a", "x").is(201)
	got := read[api.Claimed](s.call("POST", topicPath+"/claim?lease=100ms", "").is(200))
	if len(got.Messages) != 1 {
		t.Fatalf("got %+v", got)
	}
	d := got.Messages[0]
	storetest.Eventually(t, "the lease has expired", func() bool { return s.look("a").State == notify.Ready })
	for _, call := range []string{"ack", "nack", "extend"} {
		s.call("POST", settle(d, call, ""), "").is(409).kind("lease-lost")
	}
	if next := s.claim("orders"); next.Attempt != 2 || next.Receipt == d.Receipt {
		t.Errorf("got %+v", next)
	}
	s.call("POST", settle(d, "ack", ""), "").is(409).kind("lease-lost") // of another now
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for _, id := range []string{"a", "b", "c"} {
		s.call("POST", messages+"?id="+id, "x").is(201)
		s.call("POST", settle(s.claim("orders"), "nack", "&dead=true&reason="+id), "").is(204)
	}
	act := func(kind, q string, want int) {
		t.Helper()
		path := "/v1/find/" + kind + "?all=true&q=" + url.QueryEscape(q)
		if got := read[api.Acted](s.call("POST", path, "").is(200)); got.Done != want || got.Cursor != "" {
			t.Errorf("%s of %s changes %d, want %d", kind, q, got.Done, want)
		}
	}
	same := s.unchanged()
	act("requeue", "topic:orders id:none", 0)
	act("purge", "topic:orders id:none", 0)
	act("requeue", "topic:none state:dead", 0)
	for _, kind := range []string{"requeue", "purge"} {
		s.call("POST", "/v1/find/"+kind+"?q=topic:orders", "").is(422).says(`"name":"all"`) // not all of them
		s.call("POST", "/v1/find/"+kind+"?q=topic:orders&all=1", "").is(422).says(`"name":"all"`)
	}
	same()
	act("requeue", "topic:orders id:a", 1)
	act("requeue", "topic:orders id:a", 0)
	act("purge", "topic:orders id:b", 1)
	s.call("GET", messages+"/b", "").is(404)
	if page := read[api.Page](s.call("GET", topicPath+"/dead", "").is(200)); len(page.Messages) != 1 || page.Messages[0].Reason != "c" {
		t.Errorf("got %+v", page)
	}
	act("requeue", "topic:orders state:dead", 1)
	act("purge", "topic:orders state:dead", 0)
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for i := range 5 {
		s.call("POST", fmt.Sprintf("%s?id=%d&delay=%dh", messages, i, i+1), "x").is(201)
	}
	s.call("POST", topicPath+"/broadcasts?id=b&delay=1h", "x").is(201)
	var ids []string
	path := messages + "?limit=2"
	for cursor := "start"; cursor != ""; {
		page := read[api.Page](s.call("GET", path, "").is(200))
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		if len(ids) == 2 { // the last message of a page may be gone when the next page is read
			s.call("DELETE", messages+"/1", "").is(200)
		}
		cursor = page.Cursor
		path = messages + "?limit=2&cursor=" + cursor
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4"}, ids); diff != "" {
		t.Error(diff)
	}
	foreign := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, cursor := range []string{"x", "!", foreign("x"), foreign("1"), foreign("x y"), foreign("1.5 orders:1"), foreign("99999999999999999999 a"), foreign(" "), foreign("1e5 a"), foreign("+inf a")} {
		for _, path := range []string{messages, topicPath + "/dead"} {
			if p := s.call("GET", path+"?cursor="+cursor, "").is(422).problem(); len(p.Errors) != 1 || p.Errors[0].Name != "cursor" {
				t.Errorf("cursor %s: %+v", cursor, p)
			}
		}
	}
	for _, cursor := range []string{foreign("1 "), foreign("-9223372036854775808 a"), foreign("9223372036854775807 a"), foreign("1 payments:x"), foreign("1 \xff\x00")} {
		for _, state := range []string{"scheduled", "ready", "leased", "dead", "broadcasts"} {
			s.call("GET", messages+"?state="+state+"&cursor="+cursor, "").is(200)
		}
	}
	page := read[api.Page](s.call("GET", messages+"?state=broadcasts", "").is(200))
	if len(page.Messages) != 1 || page.Messages[0].Mode != "broadcast" {
		t.Errorf("got %+v", page)
	}
}

// An id that clients take for a parent folder is refused, however it is written. Other ids may have any dots.
func TestIDOfDots(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for id, escaped := range map[string]string{".": "%2E", "..": "%2E%2E"} {
		s.call("POST", messages+"?id="+id, "x").is(422).says("which no URL can name")
		s.call("GET", messages+"/"+escaped, "").is(422)
	}
	for _, id := range []string{"...", "....", ".a", "..a", "a.", "a..", ".-."} {
		s.call("POST", messages+"?id="+id, "x").is(201)
		s.call("DELETE", messages+"/"+id, "").is(200)
	}
}

// Due times in the far future are refused or kept, and never break the carrier.
func TestFarDueTimes(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for _, query := range []string{"due=9999-12-31T23:59:59.999Z&ttl=2562047h47m16.854775807s", "delay=2562047h47m16.854775807s&ttl=2562047h47m16.854775807s", "due=1970-01-01T00:00:00Z&ttl=1ms"} {
		a := s.call("POST", messages+"?"+query, "x")
		if a.status != 201 {
			a.is(422)
			continue
		}
		s.call("GET", messages+"/"+read[api.Publication](a).ID, "").is(200)
	}
	for _, state := range []string{"scheduled", "ready", "dead"} {
		s.call("GET", messages+"?state="+state, "").is(200)
	}
	s.call("GET", topicPath, "").is(200)
	s.call("GET", "/v1/carrier", "").is(200)
}

// A pause only stops handing out.
func TestPause(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages, "x").is(201)
	for range 2 {
		s.call("POST", topicPath+"/pause", "").is(204)
	}
	if got := read[api.Claimed](s.call("POST", topicPath+"/claim", "").is(200)); len(got.Messages) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := read[api.Claimed](s.call("POST", topicPath+"/claim?wait=10ms", "").is(200)); len(got.Messages) != 0 {
		t.Errorf("got %+v", got)
	}
	s.call("GET", topicPath, "").is(200).says(`"paused":true`)
	for range 2 {
		s.call("POST", topicPath+"/resume", "").is(204)
	}
	s.claim("orders")
}

// Foreign entries in Redis are shown or skipped; they are no fault of the client.
func TestForeignThingsInRedis(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	s.call("POST", messages+"?id=b&delay=1h", "x").is(201)
	keys := s.store.KeysOf("orders")
	if err := s.store.Client().HSet(t.Context(), keys.Messages(), "orders:a", "no record", "orders:b", "{}").Err(); err != nil {
		t.Fatal(err)
	}
	if got := s.look("a"); got.Fault == "" {
		t.Errorf("got %+v", got)
	}
	s.call("GET", messages+"?state=ready", "").is(200).says("fault")
	s.call("GET", messages, "").is(200)
	if got := read[api.Claimed](s.call("POST", topicPath+"/claim", "").is(200)); len(got.Messages) != 0 {
		t.Errorf("got %+v", got)
	}
	s.call("GET", topicPath+"/dead", "").is(200).says("fault")
}
