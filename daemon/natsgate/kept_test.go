package natsgate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// An acknowledgement may leave a result, also after the lease was extended.
func TestAckKeepsResult(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	for data, want := range map[string]string{
		`+ACK {"keep":"24h","result":"paid"}`:               "paid",
		`+ACK {"keep":"24h","result":{"total":12,"n":[1]}}`: `{"total":12,"n":[1]}`,
		`+ACK {"keep":"24h"}`:                               "",
	} {
		m := claimOne(t, conn, db, "", body("a"))
		settle(t, conn, m, "+WPI")
		settle(t, conn, m, data)
		got := info(t, db, "a")
		if got.State != notify.Done || string(got.Result) != want || time.Until(got.Until) < 23*time.Hour || got.Ended.IsZero() {
			t.Errorf("%s: got %+v", data, got)
		}
		said := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`))
		if said.State != notify.Done || want != "" && *said.Result.Result != want {
			t.Errorf("%s: got %+v", data, said)
		}
		wantRefused(t, request(t, conn, m.Reply, data), 409, "lease lost")
		read[calls.Cancelled](t, request(t, conn, "bellhop.cancel."+topic, `{"id":"a"}`))
	}
	m := claimOne(t, conn, db, "", body("large"))
	wantRefused(t, request(t, conn, m.Reply, `+ACK {"keep":"24h","result":"`+strings.Repeat("x", store.MaxResult+1)+`"}`), 422, "result", "65536")
	wantRefused(t, request(t, conn, m.Reply, `+ACK {"result":"x"}`), 422, "keep")
	wantRefused(t, request(t, conn, m.Reply, `+ACK {"keep":"721h","result":"x"}`), 422, "keep")
	if got := info(t, db, "large"); got.State != notify.Leased {
		t.Errorf("it is %v", got.State)
	}
	settle(t, conn, m, `+ACK {"keep":"24h","result":"`+strings.Repeat("x", store.MaxResult)+`"}`)
}

// A client that gets deliveries may leave results, too.
func TestDeliveredWithResult(t *testing.T) {
	t.Parallel()
	conn, db, d := delivering(t, 4)
	got := subscribe(t, conn, "jobs.>")
	storetest.Publish(t, db, body("a"))
	answer(t, wantDelivered(t, got, "a", 1), `+ACK {"keep":"1h","result":"paid"}`)
	storetest.Eventually(t, "it is done", func() bool { return info(t, db, "a").State == notify.Done })
	if got := info(t, db, "a"); string(got.Result) != "paid" {
		t.Errorf("got %+v", got)
	}
	storetest.Eventually(t, "it is counted", func() bool { return d.Stats().Delivered == 1 })
}

// One that succeeded while Redis is away is acknowledged once Redis is back: no attempt is used up.
func TestDeliveredWithResultWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	n, db := startNATS(t, nil), storetest.Unhurried(storetest.At(t, redis.URL(), "kept"))
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1), Lease: new(time.Hour)})
	storetest.RingAlone(t, db, topic) // so the lease holds at once
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{}).bridges()
	deliver(t, db, 4, topic)
	got := subscribe(t, n.connect(), deliverSubject)
	storetest.Publish(t, db, body("a"))
	m := wantDelivered(t, got, "a", 1)
	redis.Kill()
	answer(t, m, `+ACK {"keep":"1h","result":"paid"}`)
	storetest.Eventually(t, "it is tried again", func() bool { return d.log.Count("cannot acknowledge a message that succeeded") > 0 })
	storetest.Restart(t, redis)
	inspector := storetest.Inspector(t, db)
	storetest.Eventually(t, "it is done", func() bool {
		got, err := inspector.Inspect(t.Context(), topic, "a")
		return err == nil && got.State == notify.Done && string(got.Result) == "paid"
	})
}

// awaits asks for the end of a message of the topic in the background.
func awaits(t testing.TB, conn *nats.Conn, id, wait string) <-chan *nats.Msg {
	t.Helper()
	inbox, got := conn.NewInbox(), make(chan *nats.Msg, 1)
	sub, err := conn.ChanSubscribe(inbox, got)
	storetest.Must(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	storetest.Must(t, conn.PublishRequest("bellhop.inspect."+topic, inbox, []byte(`{"id":"`+id+`","wait":"`+wait+`"}`)))
	return got
}

// waiting waits until so many requests wait for the end of a message.
func waiting(t testing.TB, gate *natsgate.Gate, n int64) {
	t.Helper()
	storetest.Eventually(t, "it waits", func() bool { return gate.Stats().Waits == n })
}

func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	conn, db, gate := open(t)
	carry(t, db)
	for verb, check := range map[string]func(*nats.Msg){
		`+ACK {"keep":"1h","result":"paid"}`: func(m *nats.Msg) {
			if got := read[api.Message](t, m); got.State != notify.Done || *got.Result.Result != "paid" {
				t.Errorf("got %+v", got)
			}
		},
		"+TERM broken": func(m *nats.Msg) {
			if got := read[api.Message](t, m); got.State != notify.Dead || got.Reason != "broken" {
				t.Errorf("got %+v", got)
			}
		},
		"+ACK": func(m *nats.Msg) { wantRefused(t, m, 410, "nothing is kept of it") },
	} {
		id := strings.Trim(verb[:4], "+ ") + "-" + notify.NewID()
		m := claimOne(t, conn, db, "", body(id))
		got := awaits(t, conn, id, "5m")
		storetest.Awaited(t, db, topic, id)
		settle(t, conn, m, verb)
		check(storetest.Receive(t, "the answer", got))
		waiting(t, gate, 0)
	}
	wantRefused(t, storetest.Receive(t, "the answer", awaits(t, conn, "unknown", "5m")), 404)
	for _, wait := range []string{"6m", "-1s", "soon"} {
		wantRefused(t, storetest.Receive(t, "the answer", awaits(t, conn, "unknown", wait)), 422, "wait")
	}
	later := body("later")
	later.Due = future
	storetest.Publish(t, db, later)
	if got := read[api.Message](t, storetest.Receive(t, "the answer", awaits(t, conn, "later", "30ms"))); got.State != notify.Scheduled {
		t.Errorf("got %+v", got)
	}
}

// A gateway that stops answers the requests that wait.
func TestAwaitEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, nil), storetest.Open(t)
	gate, stop := newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	later := body("later")
	later.Due = future
	storetest.Publish(t, db, later)
	got := awaits(t, conn, "later", "5m")
	waiting(t, gate, 1)
	stop()
	if m := read[api.Message](t, storetest.Receive(t, "the answer", got)); m.State != notify.Scheduled {
		t.Errorf("got %+v", m)
	}
}

// A claim says for which worker it is, and the workers are listed.
func TestWorkers(t *testing.T) {
	t.Parallel()
	conn, db, _ := open(t)
	carry(t, db)
	claimOne(t, conn, db, `{"worker":"shop-1","lease":"5m"}`, body("a"))
	if got := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`)); got.Worker != "shop-1" || got.Claimed == nil {
		t.Errorf("got %+v", got)
	}
	wantRefused(t, request(t, conn, "bellhop.claim."+topic, `{"worker":"a b"}`), 422, "worker")
	storetest.Eventually(t, "the worker that claimed is listed", func() bool {
		return slices.ContainsFunc(read[calls.Workers](t, request(t, conn, "bellhop.workers", "")).Workers, func(w calls.Worker) bool {
			return w.Name == "shop-1" && w.Kind == "worker" && slices.Equal(w.Topics, []string{topic}) && len(w.Via) == 1 && *w.Leased == 1
		})
	})
	wantRefused(t, request(t, conn, "bellhop.workers", `{"topic":"a"}`), 422, "use none")
}

// A page of listeners that does not fit into an answer is cut, and its cursor goes on behind what is left.
func TestManyListeners(t *testing.T) {
	t.Parallel()
	n, db := startNATS(t, func(o *server.Options) { o.MaxPayload = 4096 }), storetest.Open(t)
	newGate(t, db, natsgate.Options{URL: n.ClientURL()})
	conn := n.connect()
	serving(t, conn)
	var want, got []string
	for i := range 16 {
		want = append(want, fmt.Sprintf("%02d-%s", i, strings.Repeat("x", 120)))
		if _, _, err := db.Home().Register(t.Context(), want[i], store.Registration{Pattern: strings.Repeat("p", 120) + ".*", From: "now"}); err != nil {
			t.Fatal(err)
		}
	}
	pages := 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page := read[calls.Listeners](t, request(t, conn, "bellhop.listeners", `{"cursor":"`+cursor+`"}`))
		for _, one := range page.Listeners {
			got = append(got, one.Name)
		}
		cursor = page.Cursor
	}
	if !slices.Equal(got, want) || pages < 2 {
		t.Errorf("%d pages: %v", pages, got)
	}
}

// While NATS takes no answers, which the gateway finds after some seconds, no more messages are read for requests to inspect than
// there are turns, and than the buffers of the connection take.
func TestInspectionsAreBounded(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	store := storetest.Open(t)
	const requests, buffered, pause = 200, 60, time.Second // buffers of 10 MiB, and less than the gateway waits
	reads := make(chan time.Time, 2*requests)
	store.Observe(func(script string, _ time.Duration, err error) {
		if script == "inspect" && err == nil {
			reads <- time.Now()
		}
	})
	w := newWire(t, n)
	newGate(t, store, natsgate.Options{URL: w.url()})
	conn := n.connect()
	serving(t, conn)
	storetest.Publish(t, store, notify.Message{Topic: topic, ID: "a", Body: bytes.Repeat([]byte("x"), notify.DefaultMaxBody), Delay: time.Hour})
	w.fill(true)
	for range requests {
		storetest.Must(t, conn.PublishRequest("bellhop.inspect."+topic, conn.NewInbox(), []byte(`{"id":"a"}`)))
	}
	last := storetest.Receive(t, "the first is read", reads)
	for n := 1; n < requests; n++ {
		at := storetest.Receive(t, "the next is read", reads)
		if at.Sub(last) > pause {
			if n > natsgate.MaxReads+buffered {
				t.Errorf("%d were read before one was given up, want at most %d", n, natsgate.MaxReads+buffered)
			}
			return
		}
		last = at
	}
	t.Errorf("%d were read, and none had to wait", requests)
}
