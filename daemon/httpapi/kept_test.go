package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The body of an acknowledgement with keep is the result: the message is done until then.
func TestAckKeepsResult(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for id, result := range map[string]string{"text": "paid ä", "bytes": "\x00\xff", "none": "", "large": strings.Repeat("x", store.MaxResult)} {
		s.call("POST", messages+"?id="+id, "x").is(201)
		before := time.Now().Add(-time.Minute)
		d := read[api.Claimed](s.call("POST", topicPath+"/claim?worker=shop-1", "").is(200)).Messages[0]
		if a := s.call("POST", settle(d, "ack", "&keep=24h"), result).is(204); len(a.body) != 0 {
			t.Errorf("%s: the answer is %s", id, a.body)
		}
		got := s.look(id)
		text := ""
		if got.Result.Result != nil {
			text = *got.Result.Result
		}
		if got.State != notify.Done || text+string(got.ResultBase64) != result || (got.ResultBase64 != nil) != (id == "bytes") {
			t.Errorf("%s: got %+v", id, got)
		}
		if got.TakenUntil == nil || time.Until(*got.TakenUntil) < 23*time.Hour || got.Ended == nil || got.Ended.Before(before) || got.Body != nil {
			t.Errorf("%s: got %+v", id, got)
		}
		s.call("POST", messages+"?id="+id, "y").is(409).kind("exists")
		s.call("POST", messages+"?id="+id+"&if_exists=keep", "y").is(200).says(`"state":"done"`)
	}
	page := read[api.Page](s.call("GET", messages+"?state=done", "").is(200))
	var ids []string
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if diff := cmp.Diff([]string{"bytes", "large", "none", "text"}, ids); diff != "" {
		t.Error(diff)
	}
	s.call("DELETE", messages+"/text", "").is(200).says(`"was":"done"`)
	s.call("GET", messages+"/text", "").is(404)
}

// A wrong acknowledgement changes nothing, and says what would be right.
func TestWrongResults(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	d := s.claim("orders")
	same := s.unchanged()
	if p := s.call("POST", settle(d, "ack", ""), "result").is(422).says("give keep, such as keep=24h").problem(); !slices.Equal(names(p), []string{"keep"}) {
		t.Errorf("it names %v", names(p))
	}
	if p := s.call("POST", settle(d, "ack", "&keep=24h"), strings.Repeat("x", store.MaxResult+1)).is(413).kind("too-large").says("65536").problem(); !slices.Equal(names(p), []string{"body"}) {
		t.Errorf("it names %v", names(p))
	}
	s.call("POST", settle(d, "ack", "&keep=721h"), "").is(422).says("720h")
	s.call("POST", settle(d, "ack", "&keep=24h"), "x", "Content-Encoding: gzip").is(422).says("send it plain")
	lost := d
	lost.Receipt++
	s.call("POST", settle(lost, "ack", "&keep=24h"), "x").is(409).kind("lease-lost")
	same()
	s.call("POST", settle(d, "ack", ""), "").is(204)
	s.call("GET", messages+"/a", "").is(404)
}

// waits waits until so many calls wait for the end of a message.
func (h *host) waits(n int64) {
	h.t.Helper()
	storetest.Eventually(h.t, fmt.Sprintf("%d calls wait", n), func() bool { return h.Stats().Waits == n })
}

// await waits for the end of a message of orders in the background.
func (h *host) await(c *http.Client, id string) <-chan reply {
	got := make(chan reply, 1)
	go func() {
		r, err := h.send(c, "GET", messages+"/"+id+"?wait=5m", "")
		storetest.Should(h.t, err)
		got <- r
	}()
	return got
}

// ends waits for the answer of an await, which must have this status.
func ends(t testing.TB, got <-chan reply, status int) (m api.Message) {
	t.Helper()
	r := storetest.Receive(t, "the answer", got)
	if r.status != status {
		t.Fatalf("it answers %d, want %d: %s", r.status, status, r.body)
	}
	if err := json.Unmarshal(r.body, &m); status == http.StatusOK && err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	h := serve(t, db, httpapi.Options{}, httpapi.Timing{})
	c := client(t)
	begin := func(id string) (<-chan reply, api.Delivery) {
		t.Helper()
		h.want(c, http.StatusCreated, "POST", messages+"?id="+id, "x")
		got := h.await(c, id)
		storetest.Awaited(t, db, "orders", id)
		return got, storetest.Receive(t, "the message", h.claim(c, "orders", "wait=1m")).messages[0]
	}
	got, d := begin("kept")
	h.want(c, http.StatusNoContent, "POST", settle(d, "ack", "&keep=1h"), "the result")
	if m := ends(t, got, http.StatusOK); m.State != notify.Done || *m.Result.Result != "the result" {
		t.Errorf("got %+v", m)
	}
	got, d = begin("dead")
	h.want(c, http.StatusNoContent, "POST", settle(d, "nack", "&dead=true&reason=broken"), "")
	if m := ends(t, got, http.StatusOK); m.State != notify.Dead || m.Reason != "broken" {
		t.Errorf("got %+v", m)
	}
	got, d = begin("gone")
	h.want(c, http.StatusNoContent, "POST", settle(d, "ack", ""), "")
	r := storetest.Receive(t, "the answer", got)
	if r.status != http.StatusGone || !bytes.Contains(r.body, []byte("urn:bellhop:gone")) || bytes.Contains(r.body, []byte("succeeded")) && !bytes.Contains(r.body, []byte("not known")) {
		t.Errorf("it answers %d: %s", r.status, r.body)
	}
	for _, id := range []string{"kept", "dead"} { // ended already
		h.want(c, http.StatusOK, "GET", messages+"/"+id+"?wait=5m", "")
	}
	h.want(c, http.StatusNotFound, "GET", messages+"/unknown?wait=5m", "")
	h.waits(0)
}

// When the wait is over the message is answered as it is.
func TestAwaitEndsWithItsWait(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&delay=1h", "x").is(201)
	got := read[api.Message](s.call("GET", messages+"/a?wait=30ms", "").is(200))
	if got.State != notify.Scheduled || string(got.Text.Bytes()) != "x" {
		t.Errorf("got %+v", got)
	}
	s.call("GET", messages+"/a?wait=0s", "").is(200).says(`"scheduled"`)
	s.call("GET", messages+"/a?wait=6m", "").is(422).says("use 0s to 5m")
}

// A wait ends with its client, with its token and with the daemon.
func TestAwaitIsCutShort(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	line := func(name string) string { return name + " " + tokenOf(name) + " publish >\n" }
	tokens := file(t, "tokens", line("kept")+line("gone"))
	h := serve(t, db, httpapi.Options{TokensFile: tokens}, httpapi.Timing{})
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "a", Delay: time.Hour, Body: []byte("x")})
	with := func(name string) *http.Client {
		return &http.Client{Transport: bearer{client(t).Transport, tokenOf(name)}}
	}

	w := h.dial(t).say("GET " + messages + "/a?wait=5m HTTP/1.1\nHost: x\nAuthorization: Bearer " + tokenOf("kept") + "\n\n")
	h.waits(1)
	w.reset()
	h.waits(0)

	gone, kept := h.await(with("gone"), "a"), h.await(with("kept"), "a")
	h.waits(2)
	write(t, tokens, line("kept"))
	storetest.Must(t, h.Reload())
	ends(t, gone, http.StatusUnauthorized)
	h.waits(1)
	go h.Quiesce(t.Context())
	r := storetest.Receive(t, "the answer", kept)
	if r.status != http.StatusOK || !bytes.Contains(r.body, []byte(`"scheduled"`)) {
		t.Errorf("it answers %d: %s", r.status, r.body)
	}
}

// Whoever has a message, and why it failed before, is shown to all who look at it.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	s.call("POST", messages+"?id=a&attempts=3", "x").is(201)
	claim := func(worker string) api.Delivery {
		t.Helper()
		return read[api.Claimed](s.call("POST", topicPath+"/claim?worker="+worker, "").is(200)).Messages[0]
	}
	s.call("POST", settle(claim("shop-1"), "nack", "&delay=1h&reason=no%20route%0Ato%20host"), "").is(204)
	s.call("PATCH", messages+"/a", "").is(200)
	d := claim("shop-2")
	got := s.look("a")
	if got.Worker != "shop-2" || got.Claimed == nil || time.Since(*got.Claimed) > time.Hour {
		t.Errorf("got %+v", got)
	}
	s.call("GET", messages+"?state=leased", "").is(200).says(`"worker":"shop-2"`)
	s.call("POST", settle(d, "nack", "&dead=true&reason=broken"), "").is(204)
	dead := read[api.Page](s.call("GET", topicPath+"/dead", "").is(200)).Messages
	if len(dead) != 1 || len(dead[0].History) != 2 || dead[0].History[1].Reason != "broken" || dead[0].Worker != "" {
		t.Fatalf("got %+v", dead)
	}
	for _, history := range [][]api.Attempt{d.History, got.History, dead[0].History} {
		if one := history[0]; one.Worker != "shop-1" || one.Reason != "no route to host" || one.TookMs == nil || *one.TookMs < 0 || time.Since(one.Ended) > time.Hour {
			t.Errorf("got %+v", one)
		}
	}
}

// The daemon is among the workers, and a worker whose claims name it. A named listener has what it holds, and its workers for who may see them.
func TestWorkersAndListeners(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{Version: "1.2.3", TokensFile: file(t, "tokens", "all "+tokenOf("all")+" admin >\nblind "+tokenOf("blind")+" consume >\n")})
	carry(t, s.store)
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", Body: []byte("x")}, notify.Message{Topic: "prices.gold", ID: "a", Body: []byte("x"), Broadcast: true})
	s.as("all", "POST", topicPath+"/claim?worker=desk-2&lease=5m").is(200)
	storetest.Eventually(t, "both are listed", func() bool {
		all := read[calls.Workers](s.as("all", "GET", "/v1/workers").is(200)).Workers
		return slices.ContainsFunc(all, func(w calls.Worker) bool { return w.Kind == "daemon" && w.Version == "1.2.3" }) && slices.ContainsFunc(all, func(w calls.Worker) bool {
			return w.Name == "desk-2" && w.Kind == "worker" && slices.Equal(w.Topics, []string{"orders"}) && *w.Leased == 1 && strings.HasPrefix(w.Place(), "via ")
		})
	})
	l := subscriberstest.Listener(t, s.store, subscribers.ListenerOptions{Name: "desk-1", Grace: time.Millisecond})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, "prices.*", func(ctx context.Context, _ *subscribers.Broadcast) error {
			<-ctx.Done()
			return ctx.Err()
		}, subscribers.ListenOptions{Name: "billing", From: subscribers.FromBeginning()})
	})
	storetest.Eventually(t, "it listens, and holds it", func() bool {
		all := read[calls.Listeners](s.as("all", "GET", "/v1/listeners").is(200)).Listeners
		return len(all) == 1 && len(all[0].By) == 1 && len(all[0].HeldBy) == 1 && all[0].Held == 1 && all[0].HeldBy[0].Worker == "desk-1"
	})
	if one := read[calls.Listeners](s.as("blind", "GET", "/v1/listeners").is(200)).Listeners[0]; one.By != nil || one.HeldBy != nil {
		t.Errorf("a token without metrics sees %+v", one)
	}
}

// Without an archive its calls say how to get one.
func TestNoArchive(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for method, paths := range map[string][]string{
		"GET":    {"/v1/archive", "/v1/archive?topic=orders", "/v1/archive/orders/a"},
		"POST":   {"/v1/archive/requeue?all=true", "/v1/archive/erase?topic=orders"},
		"DELETE": {"/v1/archive?before=2030-01-02T00:00:00Z"},
	} {
		for _, path := range paths {
			s.call(method, path, "").is(404).kind("no-archive").says("BELLHOP_ARCHIVE_URL")
		}
	}
	s.call("POST", "/v1/archive/requeue", "").is(422).says("all=true")
	s.call("POST", "/v1/archive/erase", "").is(422).says("all=true")
	s.call("DELETE", "/v1/archive", "").is(422).says("before")
	s.call("GET", "/v1/archive?header=Tenant", "").is(422).says("NAME:VALUE")
	s.call("PATCH", "/v1/archive", "").is(405)
}

// Without an outbox its calls say how to get one.
func TestNoOutbox(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	for _, call := range []string{"GET ", "GET /refused", "POST /retry?ids=1", "POST /purge?all=true", "POST /purge?waiting=true&before=1h"} {
		method, path, _ := strings.Cut(call, " ")
		s.call(method, "/v1/outbox"+path, "").is(404).kind("no-outbox").says("BELLHOP_OUTBOX_URL")
	}
	for query, name := range map[string]string{
		"/retry": "ids", "/retry?all=false": "ids", "/retry?all=true&ids=1": "ids", "/purge": "ids", "/purge?waiting=true": "before", "/purge?all=true&before=1h": "before",
		"/purge?all=true&waiting=true&before=1h": "waiting", "/purge?ids=1&waiting=true&before=1h": "waiting", "/retry?all=true&cursor=x": "cursor", "/retry?all=true&cursor=1-9223372036854775808": "cursor",
	} {
		if p := s.call("POST", "/v1/outbox"+query, "").is(422).problem(); !slices.Equal(names(p), []string{name}) {
			t.Errorf("%s: it names %v", query, names(p))
		}
	}
}

// Where Redis is short of memory a settlement stands, and the answer says what is left out.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	s := serveOn(t, storetest.Unhurried(storetest.At(t, server.URL(), "full")), httpapi.Options{})
	var all []notify.Message
	for i := range 500 {
		all = append(all, notify.Message{Topic: "orders", ID: fmt.Sprint(i), Body: []byte("x")})
	}
	storetest.Publish(t, s.store, all...)
	ds := read[api.Claimed](s.call("POST", topicPath+"/claim?max=500&lease=1h", "").is(200)).Messages
	memory, err := s.store.Client().Info(t.Context(), "memory").Result()
	storetest.Must(t, err)
	var used int64
	_, rest, _ := strings.Cut(memory, "used_memory:")
	storetest.Must(t, storetest.ErrOf(fmt.Sscan(rest, &used)))
	storetest.Must(t, s.store.Client().ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used*9/10)).Err())
	next := func() (d api.Delivery) {
		if len(ds) == 0 {
			t.Fatal("nothing is left out")
		}
		d, ds = ds[0], ds[1:]
		return d
	}
	storetest.Eventually(t, "it is noticed", func() bool { return s.call("POST", messages, "x").status == 503 })
	storetest.Eventually(t, "a result is left out", func() bool {
		d := next()
		a := s.call("POST", settle(d, "ack", "&keep=1h"), "result")
		if a.status == 200 {
			a.says(`{"left_out":"result"}`)
			s.call("GET", messages+"/"+d.ID, "").is(404)
		}
		return a.status == 200
	})
	storetest.Eventually(t, "an attempt is left out", func() bool {
		d := next()
		a := s.call("POST", settle(d, "nack", "&delay=1h&reason=broken"), "")
		if a.status == 200 {
			a.says(`{"left_out":"history"}`)
			if got := s.look(d.ID); got.AttemptsUsed != 1 || len(got.History) != 0 {
				t.Errorf("got %+v", got)
			}
		}
		return a.status == 200
	})
}
