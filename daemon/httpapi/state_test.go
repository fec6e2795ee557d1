package httpapi_test

import (
	"fmt"
	"testing"
	"time"

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

// receiptOf returns a delivery that only has a receipt.
func receiptOf(id string, receipt subscribers.Receipt) api.Delivery {
	return api.Delivery{Receipt: receipt, Key: api.Key{ID: id}}
}

// look inspects a message.
func (s *server) look(id string) api.Message {
	s.t.Helper()
	return read[api.Message](s.call("GET", messages+"/"+id, "").is(200))
}

// What the state of a message, or a lost lease, forbids has a status and a type of its own, and changes nothing.
func TestStatesThatForbid(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("GET", messages+"/none", "").is(404).kind("not-found")
	s.call("POST", messages+"?id=a&delay=1h", "x").is(201)
	s.call("POST", messages+"?id=a", "y").is(409).kind("exists")
	s.call("PATCH", messages+"/a", "").is(200).says(`"ready"`)
	d := s.claim("orders")
	same := s.unchanged()
	s.call("PATCH", messages+"/a?delay=1s", "").is(409).kind("leased")
	s.call("DELETE", messages+"/a", "").is(409).kind("leased")
	stale := d
	stale.Receipt--
	for _, lost := range []api.Delivery{stale, receiptOf("none", d.Receipt), receiptOf("a", 1), receiptOf("a", 1<<63-1)} {
		for _, call := range [][2]string{{"ack", ""}, {"ack", "&keep=1h"}, {"nack", ""}, {"nack", "&delay=1s"}, {"nack", "&dead=true"}, {"nack", "&attempt=keep"}, {"extend", ""}} {
			s.call("POST", settle(lost, call[0], call[1]), "").is(409).kind("lease-lost")
		}
		got := read[api.Acked](s.call("POST", topicPath+"/ack", fmt.Sprintf(`[{"id":%q,"receipt":%d}]`, lost.ID, lost.Receipt)).is(200))
		if got.Acked != 0 || len(got.Lost) != 1 {
			t.Errorf("got %+v", got)
		}
	}
	s.call("POST", settle(d, "nack", "&dead=true&delay=1s"), "").is(422).says("delay")
	same()
	if next := read[api.Extended](s.call("POST", settle(d, "extend", "&lease=2h"), "").is(200)); next.Receipt != d.Receipt || !s.look("a").Until.Equal(next.Until) {
		t.Errorf("it is extended to %+v by %d", next, d.Receipt)
	}
	s.call("POST", settle(d, "nack", "&dead=true&reason=no%20such%20order%0Aat%20all"), "").is(204)
	if got := s.look("a"); got.State != notify.Dead || got.Reason != "no such order\nat all" {
		t.Errorf("got %+v", got)
	}
	s.call("PATCH", messages+"/a", "").is(409).kind("dead")
	s.call("DELETE", messages+"/a", "").is(200).says(`"dead"`)
	storetest.Empty(t, s.store)
}

// An extension may say how far the work is, and is refused once the message is cancelled with stop.
func TestExtend(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	d := s.claim("orders")
	s.call("POST", settle(d, "extend", "&progress=0"), "").is(200)
	s.call("GET", messages+"/a", "").is(200).says(`"progress":0`)
	s.call("POST", settle(d, "extend", "&lease=1h&progress=40&note=page%202%20of%205"), "").is(200)
	for query, says := range map[string]string{"progress=101": `"name":"progress"`, "note=a": "give progress, too", "progress=1&note=a%0Ab": "printable UTF-8"} {
		s.call("POST", settle(d, "extend", "&"+query), "").is(422).says(says)
	}
	s.call("GET", messages+"/a", "").is(200).says(`"progress":40,"note":"page 2 of 5"`)
	s.call("DELETE", messages+"/a?stop=1&next=true", "").is(422).says(`"name":"stop"`)
	s.call("DELETE", messages+"/a?stop=true", "").is(200).says(`{"cancelled":false,"was":"leased","stopping":true}`)
	s.call("GET", messages+"/a", "").is(200).says(`"stopping":"20`)
	s.call("POST", settle(d, "extend", ""), "").is(409).kind("stop")
	s.call("POST", settle(d, "nack", "&delay=1h"), "").is(204)
	s.call("GET", messages+"/a", "").is(404)
}

// A message that is given back is due after its delay, else its backoff, and dies for its reason.
func TestNack(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Set(t, s.store, "orders", notify.SettingsChange{Attempts: new(3), BackoffMin: new(time.Hour), BackoffMax: new(100 * time.Hour)})
	s.call("POST", messages+"?id=a", "x").is(201)
	for attempt, query := range []string{"&delay=90m&reason=first", "", "&reason=third"} {
		d := s.claim("orders")
		if d.Attempt != attempt+1 {
			t.Errorf("got %+v", d)
		}
		s.call("POST", settle(d, "nack", query), "").is(204)
		got := s.look("a")
		switch attempt {
		case 0:
			if wait := time.Until(*got.Due); got.State != notify.Scheduled || wait < 80*time.Minute || wait > 90*time.Minute {
				t.Errorf("got %+v, due in %v", got, wait)
			}
		case 1: // up to two hours; less than a second is improbable
			if wait := time.Until(*got.Due); got.State != notify.Scheduled || wait < time.Millisecond || wait > 2*time.Hour {
				t.Errorf("got %+v, due in %v", got, wait)
			}
		default:
			if got.State != notify.Dead || got.Reason != "third" || got.AttemptsUsed != 3 {
				t.Errorf("got %+v", got)
			}
			return
		}
		s.call("PATCH", messages+"/a", "").is(200)
	}
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

// Foreign entries in Redis are shown or skipped; they are no fault of the client.
func TestForeignThingsInRedis(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	s.call("POST", messages+"?id=b&delay=1h", "x").is(201)
	keys := s.store.KeysOf("orders")
	storetest.Must(t, s.store.Client().HSet(t.Context(), keys.Messages(), "orders:a", "no record", "orders:b", "{}").Err())
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
